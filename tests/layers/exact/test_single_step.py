"""A step of a layer in two calls: what the general path computes, and the general path where anything is special."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fastweights import DPFP, EluPlusOne, FastWeightAttention, FeatureMap, Normalisation, UpdateRule
from fastweights.kernels.native import library
from fastweights.layers import Block, FeedForward, block
from fastweights.layers.attention import fast_weight
from fastweights.layers.exact import single_step
from fastweights.memory import NORMALISATIONS, FastWeightState, record
from fastweights.update_rules import DeltaRule, GatedDeltaRule, SumRule

if (problem := library.unavailable()) is not None:
    pytest.skip(problem, allow_module_level=True)

MAPS = [DPFP(nu=1), DPFP(nu=3), EluPlusOne()]
RULES = [DeltaRule(), DeltaRule(negative=True, beta_bias=1.0), SumRule()]
DIM = 24


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def make(pre_norm: bool = False, dtype: torch.dtype = torch.float64, **choices: Any) -> Block:
    torch.manual_seed(0)
    made = Block(
        DIM, FastWeightAttention(DIM, 3, read_scale=0.3, **choices), FeedForward(DIM, 50, 0.1), pre_norm=pre_norm
    )
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made.to(dtype).eval()


def state_of(made: Block, batch: int) -> FastWeightState:
    state = made.initial_state(batch, next(made.parameters()).dtype)
    assert isinstance(state, FastWeightState)
    return made(torch.randn(batch, 5, DIM, dtype=state.weights.dtype), state)[1]  # type: ignore[no-any-return]


def general(made: Block, x: Tensor, state: FastWeightState, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, Any]:
    """The same step by the general path."""
    with monkeypatch.context() as patch:
        patch.setattr(fast_weight, "attention_step", lambda *_: None)
        patch.setattr(block, "feed_forward_step", lambda *_: None)
        result: tuple[Tensor, Any] = made(x, state)
    return result


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("normalisation", [made() for made in NORMALISATIONS.values()], ids=str)
@pytest.mark.parametrize("feature_map", MAPS, ids=str)
def test_agrees_with_the_general_path(
    feature_map: FeatureMap,
    normalisation: Normalisation,
    rule: UpdateRule,
    pre_norm: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = make(pre_norm, feature_map=feature_map, normalisation=normalisation, update_rule=rule)
    state, x = state_of(made, 2), torch.randn(2, 1, DIM, dtype=torch.float64)
    attention = made.attention
    assert isinstance(attention, FastWeightAttention)
    assert single_step.attention_step(attention, x, state) is not None
    assert single_step.feed_forward_step(made, x, x) is not None
    (found, after), (expected, then) = made(x, state), general(made, x, state, monkeypatch)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(after.weights, then.weights, rtol=1e-11, atol=1e-12)
    assert torch.equal(after.steps, then.steps)


def hooked(made: Block) -> None:
    made.attention.output.register_forward_hook(lambda *_: None)  # type: ignore[attr-defined]
    made.feed_forward.layers[0].register_forward_pre_hook(lambda *_: None)  # type: ignore[index, operator, union-attr]


def replaced(made: Block) -> None:
    class Other(nn.Linear):
        pass

    made.attention.projection.__class__ = Other  # type: ignore[attr-defined]
    made.feed_forward_norm.__class__ = type("Norm", (nn.LayerNorm,), {})


@pytest.mark.parametrize("change", [hooked, replaced, lambda made: made.bfloat16()], ids=["hook", "class", "bfloat16"])
def test_what_is_special_takes_the_general_path(change: Any) -> None:
    made = make(dtype=torch.float32)
    change(made)
    dtype = next(made.parameters()).dtype
    state, x = made.initial_state(1, dtype), torch.randn(1, 1, DIM, dtype=dtype)
    assert single_step.attention_step(made.attention, x, state) is None  # type: ignore[arg-type]
    assert single_step.feed_forward_step(made, x, x) is None


def test_gradients_observers_and_other_rules_take_the_general_path() -> None:
    made, other = make(), make(update_rule=GatedDeltaRule())
    layer, state, x = made.attention, state_of(made, 1), torch.randn(1, 1, DIM, dtype=torch.float64)
    assert isinstance(layer, FastWeightAttention)
    assert single_step.attention_step(other.attention, x, state_of(other, 1)) is None  # type: ignore[arg-type]
    with torch.enable_grad():
        assert single_step.attention_step(layer, x, state) is None
        assert single_step.feed_forward_step(made, x, x) is None
    with record(layer) as traces:
        layer(x, state)
    assert traces
    made.train()
    assert single_step.feed_forward_step(made, x, x) is None


def test_an_overflow_is_named_and_nan_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(dtype=torch.float32)
    state, x = state_of(made, 2), torch.randn(2, 1, DIM)
    full = FastWeightState(torch.full_like(state.weights, 3e38), None, state.steps)
    with pytest.raises(FloatingPointError, match="the memory overflowed in sequences"):
        made(1e30 * x, full)
    x[1, 0, 3] = torch.nan
    (found, _), (expected, _) = made(x, state), general(made, x, state, monkeypatch)
    assert found[1].isnan().all()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_wrong_shapes_are_reported_as_ever() -> None:
    made = make()
    with pytest.raises(ValueError, match="expected weights of shape"):
        made(torch.randn(2, 1, DIM, dtype=torch.float64), state_of(made, 1))
    with pytest.raises(ValueError, match="expected shape"):
        made.attention(torch.randn(1, 1, DIM + 1, dtype=torch.float64), state_of(made, 1), None)
