"""docs/math.md, "Your model in our notation": every row of the table against the equation of the model, in float64."""

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fastweights import (
    AttentionNormalisation,
    DecayedSumRule,
    DeltaProductRule,
    DeltaRule,
    GatedDeltaRule,
    GatedDeltaRule2,
    GatedLinearDecay,
    KimiDeltaRule,
    LightningDecay,
    NormalisedStep,
    RetNetDecay,
    SumRule,
    UpdateRule,
    fast_weight_scan,
)
from fastweights.memory import FastWeightState, WriteInputs, run_rule
from random_problems import relative_error

pytestmark = pytest.mark.usefixtures("one_thread")

H, T, K, V = 2, 7, 4, 3
TEXT = (Path(__file__).parent.parent / "docs" / "math.md").read_text(encoding="utf-8")


def normal(*shape: int) -> Tensor:
    return torch.randn(1, H, *shape, dtype=torch.float64)


def uniform(*shape: int) -> Tensor:
    return torch.rand(1, H, *shape, dtype=torch.float64)


def unit(*shape: int) -> Tensor:
    return torch.nn.functional.normalize(normal(*shape), dim=-1)


def columns(vectors: Tensor, t: int) -> Tensor:
    return vectors[:, :, t, :, None]


def rows(vectors: Tensor, t: int) -> Tensor:
    return vectors[:, :, t, None, :]


def scalar(numbers: Tensor, t: int) -> Tensor:
    return numbers[:, :, t, None, None]


Q, KEYS, VALUES = normal(T, K), unit(T, K), normal(T, V)
ONES, ZEROS, EYE = torch.ones(1, H, T, dtype=torch.float64), torch.zeros(1, H, T, dtype=torch.float64), torch.eye(K)


def outer(values: Tensor, keys: Tensor, t: int) -> Tensor:
    return columns(values, t) @ rows(keys, t)


def by_rule(rule: UpdateRule, gates: dict[str, Tensor], **changed: Tensor) -> Tensor:
    inputs = {"keys": KEYS, "values": VALUES, "queries": Q} | changed
    attention = AttentionNormalisation() if "normaliser" in changed else None
    state = FastWeightState.zeros(1, H, V, K, normaliser=attention is not None, dtype=torch.float64)
    writes = WriteInputs(inputs["keys"], inputs["values"], gates)
    return run_rule(rule, writes, inputs["queries"], state, attention_normalisation=attention)[0]


def by_equation(step: object, read: Tensor | None = None) -> Tensor:
    """Reads of W_t = step(W_{t-1}, t)."""
    weights, reads = torch.zeros(1, H, V, K, dtype=torch.float64), []
    for t in range(T):
        weights = step(weights, t)  # type: ignore[operator]
        reads.append((weights @ columns(Q if read is None else read, t))[..., 0])
    return torch.stack(reads, dim=2)


def same(actual: Tensor, expected: Tensor) -> None:
    assert relative_error(actual, expected) <= 1e-13


def test_linear_attention() -> None:
    keys, queries = uniform(T, K), uniform(T, K)
    scores = (queries @ keys.mT).tril()
    expected = scores @ VALUES / scores.sum(-1, keepdim=True)
    same(by_rule(SumRule(), {}, keys=keys, queries=queries, normaliser=ONES), expected)


def test_deltanet() -> None:
    beta = 2 * uniform(T)
    expected = by_equation(
        lambda w, t: w @ (EYE - scalar(beta, t) * outer(KEYS, KEYS, t)) + scalar(beta, t) * outer(VALUES, KEYS, t)
    )
    same(by_rule(DeltaRule(negative=True), {"beta": beta}), expected)


def test_normalised_step() -> None:
    keys, beta = normal(T, K), uniform(T)
    rate = beta / (keys.square().sum(-1) + 1e-8)
    expected = by_equation(
        lambda w, t: w + scalar(rate, t) * (columns(VALUES, t) - w @ columns(keys, t)) @ rows(keys, t)
    )
    same(by_rule(NormalisedStep(), {"beta": beta}, keys=keys), expected)


def test_gated_deltanet() -> None:
    alpha, beta = uniform(T), uniform(T)

    def step(w: Tensor, t: int) -> Tensor:
        kept = scalar(alpha, t) * w
        return kept @ (EYE - scalar(beta, t) * outer(KEYS, KEYS, t)) + scalar(beta, t) * outer(VALUES, KEYS, t)

    same(by_rule(GatedDeltaRule(), {"alpha": alpha, "beta": beta}), by_equation(step))


@pytest.mark.parametrize("gated", [False, True])
def test_deltaproduct(gated: bool) -> None:
    n, alpha = 3, uniform(T)
    keys, values, beta = unit(T, n, K), normal(T, n, V), 2 * uniform(T, n)

    def step(w: Tensor, t: int) -> Tensor:
        w = scalar(alpha, t) * w if gated else w
        for i in range(n):
            k, v, b = keys[:, :, t, i, None, :], values[:, :, t, i, :, None], beta[:, :, t, i, None, None]
            w = w @ (EYE - b * k.mT @ k) + b * v @ k
        return w

    gates = {"beta": beta.flatten(2), "alpha": alpha} if gated else {"beta": beta.flatten(2)}
    flat = {"keys": keys.flatten(2, 3), "values": values.flatten(2, 3)}
    same(by_rule(DeltaProductRule(n, gated=gated), gates, **flat), by_equation(step))


def test_comba() -> None:
    alpha, beta, share, direct = 0.5 + 0.5 * uniform(T), uniform(T), uniform(T), 0.3
    read = Q - direct * KEYS

    def step(w: Tensor, t: int) -> Tensor:
        erased = scalar(alpha, t) * EYE - scalar(share * beta, t) * outer(KEYS, KEYS, t)
        return w @ erased + scalar(beta, t) * outer(VALUES, KEYS, t)

    actual, _ = fast_weight_scan(read, KEYS, VALUES, share * beta / alpha, beta, decay=alpha)
    same(actual, by_equation(step, read))


def test_mamba2() -> None:
    dt, rate = uniform(T), 1 + uniform(1)
    decay = torch.exp(-rate * dt)
    expected = by_equation(lambda w, t: scalar(decay, t) * w + scalar(dt, t) * outer(VALUES, KEYS, t))
    same(by_rule(DecayedSumRule(), {"decay": torch.stack([decay, dt], dim=-1)}), expected)


def test_retnet() -> None:
    gamma = torch.tensor([1 - 2.0**-5, 1 - 2.0**-6], dtype=torch.float64)[:, None, None]
    expected = by_equation(lambda w, t: gamma * w + outer(VALUES, KEYS, t))
    decay = RetNetDecay()
    same(by_rule(DecayedSumRule(decay), {"decay": decay(normal(T, 0))}), expected)


def test_lightning() -> None:
    slopes = torch.tensor([2.0**-4, 2.0**-8], dtype=torch.float64)[:, None, None]
    expected = by_equation(lambda w, t: torch.exp(-slopes * (1 - 2 / 3)) * w + outer(VALUES, KEYS, t))
    decay = LightningDecay(depth=2 / 3)  # the third of four layers
    same(by_rule(DecayedSumRule(decay), {"decay": decay(normal(T, 0))}), expected)


def test_gated_linear_attention() -> None:
    decay = uniform(T, K)
    expected = by_equation(lambda w, t: w * rows(decay, t) + outer(VALUES, KEYS, t))
    same(by_rule(DecayedSumRule(GatedLinearDecay()), {"decay": decay}), expected)


def test_hgrn2() -> None:
    forget = uniform(T, K)
    expected = by_equation(lambda w, t: w * rows(forget, t) + outer(VALUES, 1 - forget, t))
    same(fast_weight_scan(Q, 1 - forget, VALUES, ZEROS, ONES, decay=forget)[0], expected)


def test_rwkv6() -> None:
    """Reads before it writes, with a bonus for the present: two steps for each, the first of which only reads."""
    decay, bonus = uniform(T, K), normal(1, K)
    weights, expected = torch.zeros(1, H, V, K, dtype=torch.float64), []
    for t in range(T):
        expected.append(((weights + outer(VALUES, bonus * KEYS, t)) @ columns(Q, t))[..., 0])
        weights = weights * rows(decay, t) + outer(VALUES, KEYS, t)
    nothing = torch.zeros_like

    def both(first: Tensor, second: Tensor) -> Tensor:
        return torch.stack([first, second], dim=3).flatten(2, 3)

    reads, final = fast_weight_scan(
        both(Q, nothing(Q)),
        both(nothing(KEYS), KEYS),
        both(nothing(VALUES), VALUES),
        both(ZEROS, ZEROS),
        both(ZEROS, ONES),
        decay=both(torch.ones_like(decay), decay),
    )
    present = (bonus * KEYS * Q).sum(-1, keepdim=True) * VALUES
    same(reads[:, :, ::2] + present, torch.stack(expected, dim=2))
    same(final, weights)


def test_kimi_delta_attention() -> None:
    alpha, beta = uniform(T, K), uniform(T)

    def step(w: Tensor, t: int) -> Tensor:
        kept = w @ torch.diag_embed(alpha[:, :, t])
        return kept @ (EYE - scalar(beta, t) * outer(KEYS, KEYS, t)) + scalar(beta, t) * outer(VALUES, KEYS, t)

    same(by_rule(KimiDeltaRule(), {"alpha": alpha, "beta": beta}), by_equation(step))


def test_gated_deltanet_2() -> None:
    alpha, erase, write = uniform(T, K), uniform(T, K), uniform(T, V)

    def step(w: Tensor, t: int) -> Tensor:
        kept = w @ torch.diag_embed(alpha[:, :, t])
        return kept @ (EYE - outer(erase * KEYS, KEYS, t)) + outer(write * VALUES, KEYS, t)

    same(by_rule(GatedDeltaRule2(), {"alpha": alpha, "erase": erase, "write": write}), by_equation(step))


def test_preconditioned_delta() -> None:
    beta, scale = uniform(T), uniform(T, K)

    def step(w: Tensor, t: int) -> Tensor:
        error = columns(VALUES, t) - w @ columns(KEYS, t)
        return w + scalar(beta, t) * error @ rows(scale * KEYS, t)

    same(fast_weight_scan(Q, scale * KEYS, VALUES, beta, beta, lookups=KEYS)[0], by_equation(step))


def test_rwkv7() -> None:
    """Two writes per step: one erases, looked up with κ / w along a ∘ κ, the other adds."""
    decay, rate, removed, keys = 0.5 + 0.5 * uniform(T, K), uniform(T, K), unit(T, K), normal(T, K)

    def step(w: Tensor, t: int) -> Tensor:
        return w @ (torch.diag_embed(decay[:, :, t]) - outer(removed, rate * removed, t)) + outer(VALUES, keys, t)

    def both(first: Tensor, second: Tensor) -> Tensor:
        return torch.stack([first, second], dim=3).flatten(2, 3)

    reads, _ = fast_weight_scan(
        both(torch.zeros_like(Q), Q),
        both(rate * removed, keys),
        both(torch.zeros_like(VALUES), VALUES),
        both(ONES, ZEROS),
        both(ZEROS, ONES),
        decay=both(decay, torch.ones_like(decay)),
        lookups=both(removed / decay, keys),
    )
    same(reads[:, :, 1::2], by_equation(step))


def test_mlstm() -> None:
    forget, take = uniform(T), uniform(T).exp()
    weights, norm = torch.zeros(1, H, V, K, dtype=torch.float64), torch.zeros(1, H, K, dtype=torch.float64)
    expected = []
    for t in range(T):
        weights = scalar(forget, t) * weights + scalar(take, t) * outer(VALUES, KEYS, t)
        norm = forget[:, :, t, None] * norm + take[:, :, t, None] * KEYS[:, :, t]
        divisor = (norm * Q[:, :, t]).sum(-1, keepdim=True).abs().clamp(min=1)
        expected.append((weights @ columns(Q, t))[..., 0] / divisor)
    with_norm = torch.cat([VALUES, ONES[..., None]], dim=-1)  # n is the memory's row for a value that is always 1
    reads, _ = fast_weight_scan(Q, KEYS, with_norm, ZEROS, take, decay=forget)
    same(reads[..., :V] / reads[..., V:].abs().clamp(min=1), torch.stack(expected, dim=2))


def test_every_row_of_the_table_has_its_test() -> None:
    table = TEXT.partition('<a id="your-model"></a>')[2].partition("\n## ")[0]
    named = re.findall(r"`test_your_model.py::(test_\w+)`", table)
    here = {name for name in globals() if name.startswith("test_")} - {"test_every_row_of_the_table_has_its_test"}
    assert set(named) == here
    assert len(re.findall(r"^\| .* \|$", table, re.MULTILINE)) == len(named) + 1  # and the head of the table
