"""What does not fit is refused in words: the argument, what was got, and what is possible.

In a test run shapes are checked by their annotations as well, which would speak first. `without_shape_checks` turns
that off, so that the errors seen here are those a user sees.
"""

from collections.abc import Callable

import pytest
import torch
from operator_inputs import draw
from torch import Tensor

import fastweights.memory.native as native
from fastweights import (
    DPFP,
    AttentionNormalisation,
    DeltaProductRule,
    DeltaRule,
    EluPlusOne,
    FastWeightAttention,
    FastWeightCrossAttention,
    FastWeightMemoryRule,
    FastWeightState,
    Favor,
    NoNormalisation,
    NormalisedDeltaRule,
    ProgrammerRule,
    SoftmaxAttention,
    Tanh,
    fast_weight_scan,
)

pytestmark = pytest.mark.usefixtures("without_shape_checks")

Change = Callable[[Tensor], object]

OPERATOR: list[tuple[str, Change, type[Exception], str]] = [
    # rank
    ("keys", lambda x: x[0], ValueError, r"keys: expected a tensor of shape \(b, h, t, k\).*got shape \(2, 67, 8\)"),
    ("values", lambda x: x[0], ValueError, r"values: expected .* \(b, h, t, v\).*got shape \(2, 67, 5\)"),
    ("queries", lambda x: x[..., 0], ValueError, r"queries: expected .*\(2, 2, 67, 8\).*got shape \(2, 2, 67\)"),
    ("erase", lambda x: x[..., None], ValueError, r"erase: expected .*\(2, 2, 67\).*got shape \(2, 2, 67, 1\)"),
    ("weights", lambda x: x[0], ValueError, r"weights: expected .*\(2, 2, 5, 8\).*got shape \(2, 5, 8\)"),
    # shape
    ("queries", lambda x: x[..., :7], ValueError, r"queries: .*\(2, 2, 67, 8\).*got shape \(2, 2, 67, 7\)"),
    ("values", lambda x: x[:, :, 1:], ValueError, r"values: .*\(2, 2, 67, 5\).*got shape \(2, 2, 66, 5\)"),
    ("erase", lambda x: x[:, :1], ValueError, r"erase: .*\(2, 2, 67\).*got shape \(2, 1, 67\)"),
    ("write", lambda x: x[:1], ValueError, r"write: .*\(2, 2, 67\).*got shape \(1, 2, 67\)"),
    ("weights", lambda x: x.mT, ValueError, r"weights: .*\(2, 2, 5, 8\), \(b, h, v, k\).*got shape \(2, 2, 8, 5\)"),
    ("decay", lambda x: x[..., :1], ValueError, r"decay: .*\(2, 2, 67\).*got shape \(2, 2, 1\)"),
    (
        "decay",
        lambda x: x[..., None].expand(2, 2, 67, 7),
        ValueError,
        r"decay: .*\(2, 2, 67, 8\).*got .*\(2, 2, 67, 7\)",
    ),
    ("lookups", lambda x: x[..., :7], ValueError, r"lookups: .*\(2, 2, 67, 8\).*got shape \(2, 2, 67, 7\)"),
    ("lookups", lambda x: x[..., 0], ValueError, r"lookups: .*\(2, 2, 67, 8\).*got shape \(2, 2, 67\)"),
    # dtype
    ("lookups", lambda x: x.float(), TypeError, r"lookups: expected dtype torch.float64.*got torch.float32"),
    ("keys", lambda x: x.to(torch.float8_e4m3fn), TypeError, r"keys: expected .* of at least 16 bits.*float8_e4m3fn"),
    ("keys", lambda x: x.long(), TypeError, r"keys: expected a floating-point dtype.*got torch.int64"),
    ("queries", lambda x: x.float(), TypeError, r"queries: expected dtype torch.float64.*got torch.float32"),
    ("values", lambda x: x.bfloat16(), TypeError, r"values: expected dtype torch.float64.*got torch.bfloat16"),
    ("erase", lambda x: x > 0, TypeError, r"erase: expected dtype torch.float64.*got torch.bool"),
    ("weights", lambda x: x.float(), TypeError, r"weights: expected dtype torch.float64.*got torch.float32"),
    ("decay", lambda x: x.int(), TypeError, r"decay: expected dtype torch.float64.*got torch.int32"),
    # device
    ("queries", lambda x: x.to("meta"), ValueError, r"queries: expected device cpu.*got meta"),
    ("keys", lambda x: x.to("meta"), ValueError, r"queries: expected device meta like keys, got cpu"),
    ("weights", lambda x: x.to("meta"), ValueError, r"weights: expected device cpu.*got meta"),
    ("decay", lambda x: x.to("meta"), ValueError, r"decay: expected device cpu.*got meta"),
    # no tensor at all
    ("keys", lambda x: x.numpy(), TypeError, r"keys: expected a tensor.*got ndarray"),
    ("values", lambda x: None, TypeError, r"values: expected a tensor.*got NoneType"),
    ("erase", lambda x: 1.0, TypeError, r"erase: expected a tensor.*got float"),
    ("write", lambda x: None, TypeError, r"write: expected a tensor.*got NoneType"),
    ("decay", lambda x: 0.9, TypeError, r"decay: expected a tensor.*got float"),
]


@pytest.mark.parametrize(("argument", "change", "error", "message"), OPERATOR)
@pytest.mark.parametrize("backend", ["auto", "chunked", "recurrent"])
def test_the_operator_names_what_does_not_fit(
    argument: str, change: Change, error: type[Exception], message: str, backend: str
) -> None:
    tensors: dict[str, object] = dict(draw(0, lookups=True))
    tensors[argument] = change(draw(0, lookups=True)[argument])
    with pytest.raises(error, match=message):
        fast_weight_scan(**tensors, backend=backend)  # type: ignore[arg-type]


def test_the_weights_of_half_precision_inputs_may_be_float32_but_not_float64() -> None:
    tensors = draw(0, dtype=torch.bfloat16)
    fast_weight_scan(**tensors)
    tensors["weights"] = tensors["weights"].double()
    with pytest.raises(TypeError, match=r"weights: expected dtype torch.bfloat16 or torch.float32 .*got torch.float64"):
        fast_weight_scan(**tensors)


@pytest.mark.parametrize("name", ["chunkd", "", "cuda", "NATIVE"])
def test_an_unknown_backend_lists_the_known_ones(name: str) -> None:
    known = "auto, native, triton, chunked, recurrent"
    with pytest.raises(ValueError, match=rf"unknown backend '{name}'; possible: {known}"):
        fast_weight_scan(**draw(0), backend=name)


def test_a_backend_that_is_not_here_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "unavailable", lambda: "no compiler was found")
    with pytest.raises(ValueError, match=r"backend: 'native' cannot serve this call: no compiler was found"):
        fast_weight_scan(**draw(0), backend="native")
    # What is asked for by name is never replaced in silence; `auto` goes on with another.
    assert fast_weight_scan(**draw(0))[0].isfinite().all()


def test_a_backend_that_cannot_serve_the_device_says_so() -> None:
    tensors = {name: x.to("meta") for name, x in draw(0, dtype=torch.float32).items()}
    with pytest.raises(ValueError, match=r"backend: 'native' cannot serve this call: "):
        fast_weight_scan(**tensors, backend="native")


@pytest.mark.parametrize("rule", [FastWeightMemoryRule(), ProgrammerRule()], ids=str)
def test_a_rule_that_is_not_linear_refuses_the_fast_backends(rule: FastWeightMemoryRule | ProgrammerRule) -> None:
    layer = FastWeightAttention(8, 2, update_rule=rule, backend="chunked")
    with pytest.raises(ValueError, match=rf"'chunked' cannot run {type(rule).__name__}.*possible: auto, recurrent"):
        layer(torch.randn(1, 3, 8))


LAYERS: list[tuple[Callable[[], object], str]] = [
    (lambda: FastWeightAttention(10, 3), "num_heads: expected a positive divisor of model_dim 10, got 3"),
    (lambda: FastWeightAttention(8, 0), "num_heads: .*got 0"),
    (lambda: FastWeightAttention(8, -2), "num_heads: .*got -2"),
    (lambda: SoftmaxAttention(10, 3), "num_heads: .*got 3"),
    (lambda: FastWeightCrossAttention(10, 4), "num_heads: .*got 4"),
    (lambda: FastWeightAttention(8, 2, feature_map=DPFP(nu=8)), r"nu must be in 1 \.\.\. .*= 7 .*got 8"),
    (lambda: FastWeightAttention(8, 4, num_key_heads=3), "num_key_heads: expected a divisor of num_heads 4, got 3"),
    (
        lambda: FastWeightAttention(8, 2, update_rule=DeltaProductRule(2), value_skip=True),
        "value_skip: .* several values",
    ),
    (lambda: DPFP(nu=0), "nu must be an integer of at least 1, got 0"),
    (lambda: Favor(num_features=0), "num_features must be .*got 0"),
    (lambda: Favor(kind="cos"), "kind must be one of exp, relu, got 'cos'"),  # type: ignore[arg-type]
    (lambda: ProgrammerRule(activation="gelu"), "activation must be one of .*got 'gelu'"),  # type: ignore[arg-type]
    (lambda: FastWeightAttention(8, 2, feature_map=Tanh(), attention_normalisation=True), "attention_normalisation: "),
    (
        lambda: FastWeightAttention(
            8, 2, feature_map=Favor(stabilised=True), normalisation=NoNormalisation(), update_rule=DeltaRule()
        ),
        "feature_map: .*attention_normalisation=True",
    ),
]


@pytest.mark.parametrize(("make", "message"), LAYERS)
def test_a_layer_that_cannot_be_is_refused_when_it_is_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


X = torch.zeros(2, 5, 8)
CALLS: list[tuple[dict[str, object], str]] = [
    ({"x": torch.zeros(5, 8)}, r"x: expected shape \(b, t, 8\), got \(5, 8\)"),
    ({"x": torch.zeros(2, 5, 7)}, r"x: expected shape \(b, t, 8\), got \(2, 5, 7\)"),
    ({"x": X, "mask": torch.ones(2, 5)}, r"mask: expected a bool tensor of shape \(2, 5\).*got torch.float32"),
    ({"x": X, "mask": torch.ones(2, 4, dtype=torch.bool)}, r"mask: expected .*\(2, 5\).*got .*\(2, 4\)"),
    ({"x": X, "mask": torch.ones(5, dtype=torch.bool)}, r"mask: expected .*\(2, 5\).*got .*\(5,\)"),
    ({"x": X, "state": FastWeightState.zeros(3, 2, 4, 4)}, r"state: expected weights of shape .*got \(3, 2, 4, 4\)"),
    ({"x": X, "state": FastWeightState.zeros(2, 2, 4, 8)}, r"state: expected weights of shape .*got \(2, 2, 4, 8\)"),
    ({"x": X, "state": FastWeightState.zeros(2, 2, 4, 4)}, r"state: .*normaliser"),
    ({"x": X, "boundaries": torch.zeros(2, 4, dtype=torch.bool)}, r"boundaries: expected .*\(2, 5\).*got .*\(2, 4\)"),
    ({"x": X, "boundaries": [0, 5]}, r"boundaries: expected a bool tensor .*got \[0, 5\]"),
    (
        {"x": X, "mask": torch.zeros(2, 5, dtype=torch.bool), "boundaries": torch.ones(2, 5, dtype=torch.bool)},
        "boundaries: a sequence begins at a step that the mask calls padding",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), CALLS)
def test_a_call_that_does_not_fit_the_layer_is_refused(arguments: dict[str, object], message: str) -> None:
    layer = FastWeightAttention(8, 2, feature_map=EluPlusOne(), attention_normalisation=AttentionNormalisation())
    with pytest.raises(ValueError, match=message):
        layer(**arguments)


def test_a_rule_without_the_normaliser_it_needs_says_which_rule_needs_none() -> None:
    weights, key, value, beta = torch.zeros(1, 1, 2, 3), torch.ones(1, 1, 3), torch.ones(1, 1, 2), torch.ones(1, 1)
    with pytest.raises(ValueError, match="needs the normaliser z; DeltaRule"):
        NormalisedDeltaRule().step(weights, key, value, {"beta": beta})
    with pytest.raises(ValueError, match="needs the overlaps z·k; DeltaRule"):
        NormalisedDeltaRule().coefficients(key[:, :, None], {"beta": beta[..., None]})


def test_a_layer_that_writes_before_it_reads_refuses_packed_rows() -> None:
    layer = FastWeightAttention(8, 2, causal=False)
    with pytest.raises(ValueError, match="boundaries: a layer with causal=False writes a whole row before it reads"):
        layer(X, boundaries=torch.zeros(2, 5, dtype=torch.bool))
