"""torch.func and forward-mode AD: what every derivative is compared with are finite differences, in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from combinations import usable_backends
from fastweights import (
    DPFP,
    EluPlusOne,
    FastWeightAttention,
    Favor,
    FeatureMap,
    NoNormalisation,
    SumRule,
    fast_weight_scan,
)
from fastweights.experiments.retrieval.reads.sum_normalised import sum_normalised
from fastweights.kernels.transforms import active_transform
from fastweights.layers.exact.softmax_loss import softmax_losses
from fastweights.models.language_model import LanguageModel, LanguageModelConfig

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # torch itself scripts its decompositions the first time forward-mode AD is used.
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning"),
]

FAST = [name for name in usable_backends(torch.float64) if name != "recurrent"]


def along(function: Callable[[Tensor], Tensor], x: Tensor, direction: Tensor, step: float = 1e-6) -> Tensor:
    """The derivative in a direction, by central differences."""
    return (function(x + step * direction) - function(x - step * direction)) / (2 * step)


def operator(backend: str = "auto") -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Reads as a function of the keys."""
    queries, keys, values = torch.randn(3, 2, 2, 5, 4, dtype=torch.float64).unbind()
    strength = torch.rand(2, 2, 5, dtype=torch.float64)

    def reads(keys: Tensor) -> Tensor:
        return fast_weight_scan(queries, keys, values, strength, strength, backend=backend)[0]

    return reads, keys


def layer(**options: object) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    built = FastWeightAttention(12, 3, **options).double()  # type: ignore[arg-type]
    return lambda x: built(x)[0], torch.randn(2, 6, 12, dtype=torch.float64)


def problems() -> dict[str, tuple[Callable[[Tensor], Tensor], Tensor]]:
    x = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    weights, targets = torch.randn(9, 4, dtype=torch.float64), torch.randint(0, 9, (5,))
    return {
        "dpfp": (DPFP(2), x),
        "elu": (EluPlusOne(), x),
        "operator": operator(),
        "layer": layer(),
        "sum": layer(update_rule=SumRule(), feature_map=EluPlusOne(), attention_normalisation=True),
        "loss": (lambda hidden: softmax_losses(hidden, weights, None, targets), x[0, 0]),
    }


@pytest.mark.parametrize("name", problems())
def test_forward_mode_equals_finite_differences(name: str) -> None:
    function, x = problems()[name]
    direction = torch.randn_like(x)
    expected = along(function, x, direction)
    assert expected.abs().max() > 1e-3
    _, tangent = torch.func.jvp(function, (x,), (direction,))
    assert_close(tangent, expected, rtol=1e-6, atol=1e-7)
    with torch.autograd.forward_ad.dual_level():
        dual = function(torch.autograd.forward_ad.make_dual(x, direction))
        assert_close(torch.autograd.forward_ad.unpack_dual(dual).tangent, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", problems())
def test_gradients_of_torch_func_are_those_of_autograd(name: str) -> None:
    function, x = problems()[name]
    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(function(leaf).square().sum(), leaf)
    assert_close(torch.func.grad(lambda x: function(x).square().sum())(x), expected)
    jacobian = torch.func.jacrev(lambda x: function(x).square().flatten()[:3])(x)
    rows = [torch.autograd.grad(function(leaf).square().flatten()[i], leaf)[0] for i in range(3)]
    assert_close(jacobian, torch.stack(rows))


@pytest.mark.parametrize("name", problems())
def test_vmap_is_a_loop(name: str) -> None:
    function, x = problems()[name]
    several = torch.stack([x, 2 * x, -x])
    assert_close(torch.func.vmap(function)(several), torch.stack([function(one) for one in several]))


@pytest.mark.parametrize("name", problems())
def test_a_gradient_penalty_is_right_or_refused(name: str) -> None:
    function, x = problems()[name]

    def penalised(x: Tensor) -> Tensor:
        y = function(x).sum()
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        return y + gradient.square().sum()

    leaf, direction = x.clone().requires_grad_(), torch.randn_like(x)
    if name in ("operator", "layer", "sum") and "native" in FAST:
        with pytest.raises(RuntimeError, match="no second derivative; possible: backend='recurrent'"):
            penalised(leaf).backward()
        return
    (gradient,) = torch.autograd.grad(penalised(leaf), leaf)
    difference = along(lambda x: penalised(x.detach().requires_grad_()).detach(), x, direction, 1e-5)
    assert_close((gradient * direction).sum(), difference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["recurrent", "chunked"])
def test_a_gradient_penalty_through_a_language_model_is_right(backend: str) -> None:
    config = LanguageModelConfig(vocabulary_size=20, model_dim=8, num_heads=2, num_layers=1, feed_forward_dim=8)
    model, tokens = LanguageModel(config).double().eval(), torch.randint(0, 20, (2, 5))
    model.blocks[0].attention.backend = backend
    weight = model.blocks[0].attention.output.weight
    start, direction = weight.detach().clone(), torch.randn_like(weight)

    def penalised(shift: float) -> Tensor:
        with torch.no_grad():
            weight.copy_(start + shift * direction)
        loss = model.losses(model(tokens)[0], tokens).mean()
        (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)
        return loss + 100 * gradient.square().sum()

    (gradient,) = torch.autograd.grad(penalised(0.0), weight)
    difference = (penalised(1e-4) - penalised(-1e-4)) / 2e-4
    assert_close((gradient * direction).sum(), difference.detach(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("backend", FAST)
def test_a_fast_backend_that_is_named_refuses_and_names_the_one_that_serves(backend: str) -> None:
    function, x = operator(backend)
    with pytest.raises(ValueError, match=r"no rule for torch.func and forward-mode AD; possible: backend='recurrent'"):
        torch.func.jvp(function, (x,), (x,))
    with pytest.raises(ValueError, match="possible: backend='recurrent'"):
        torch.func.grad(lambda x: function(x).sum())(x)


def test_per_sample_gradients_of_a_layer() -> None:
    built, x = FastWeightAttention(12, 3).double(), torch.randn(3, 6, 12, dtype=torch.float64)
    parameters = {name: p.detach() for name, p in built.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(built, parameters, (x[None],))[0].square().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for row in range(3):
        built.zero_grad()
        built(x[row : row + 1])[0].square().sum().backward()
        for name, parameter in built.named_parameters():
            assert_close(found[name][row], parameter.grad)


def test_a_read_with_a_backward_of_its_own_refuses_a_second_derivative() -> None:
    features = torch.rand(3, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(sum_normalised(features)[:, 0].sum(), features, create_graph=True)


def test_random_features_under_vmap_are_those_outside() -> None:
    built = FastWeightAttention(
        8, 2, feature_map=Favor(4), update_rule=SumRule(), normalisation=NoNormalisation(), attention_normalisation=True
    ).eval()
    x = torch.randn(3, 1, 5, 8)
    state = built.initial_state(1)
    expected = torch.stack([built(one, state)[0] for one in x])
    assert_close(torch.func.vmap(lambda x: built(x, state)[0])(x), expected)


def test_which_transform_is_active() -> None:
    seen: list[str] = []

    def look(x: Tensor) -> Tensor:
        seen.append(active_transform())
        return x.sum()

    x = torch.randn(2, 3)
    look(x)
    torch.func.vmap(look)(x)
    torch.func.grad(look)(x)
    torch.func.vmap(torch.func.grad(look))(x)
    with torch.autograd.forward_ad.dual_level():
        look(x)
    assert seen == ["none", "vmap", "derivative", "derivative", "derivative"]


def feature_maps() -> list[FeatureMap]:
    return [DPFP(1), DPFP(3), EluPlusOne()]


@pytest.mark.parametrize("feature_map", feature_maps(), ids=str)
def test_many_gradients_of_a_map_at_once(feature_map: FeatureMap) -> None:
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    y = feature_map(x)
    vectors = torch.randn(3, *y.shape, dtype=torch.float64)
    (found,) = torch.autograd.grad(y, x, vectors, is_grads_batched=True, retain_graph=True)
    assert_close(found, torch.stack([torch.autograd.grad(y, x, one, retain_graph=True)[0] for one in vectors]))
