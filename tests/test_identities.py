"""The identities of the paper, each with its equation numbers, by formulas that share no code with the library."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from combinations import usable_backends
from fastweights.feature_maps import DPFP, EluPlusOne, Favor, Identity
from fastweights.layers import FastWeightAttention, SoftmaxAttention
from fastweights.memory import (
    AttentionNormalisation,
    FastWeightState,
    NoNormalisation,
    SumNormalisation,
    WriteInputs,
    fast_weight_scan,
    run_rule,
)
from fastweights.update_rules import DeltaRule, NormalisedDeltaRule, ProgrammerRule, SumRule, UpdateRule

BACKENDS = usable_backends(torch.float64)
EXACT = {"rtol": 1e-11, "atol": 1e-12}


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def layer(feature_map: object, rule: UpdateRule, **more: object) -> FastWeightAttention:
    more = {"normalisation": NoNormalisation(), **more}
    return FastWeightAttention(8, 1, key_dim=4, feature_map=feature_map, update_rule=rule, **more).double().eval()


def parts(module: FastWeightAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v of one sequence and one head (Eq. 4), one row per step."""
    q, k, v = (x[0] @ module.projection.weight.T).split([4, 4, 8, *[1] * len(module.update_rule.gates)], dim=-1)[:3]
    return q, k, v


def write_once(rule: UpdateRule, weights: Tensor, key: Tensor, value: Tensor, strength: float) -> Tensor:
    """W after one write, for one sequence and one head."""
    beta = torch.tensor([[strength]], dtype=torch.float64)
    return rule.step(weights[None, None], key[None, None], value[None, None], {"beta": beta})[0, 0]


def test_equations_1_to_3_the_programmer_of_1991() -> None:
    slow_a, slow_b, x = normal(4, 3), normal(3, 3), normal(6, 3)
    weights, expected = torch.zeros(4, 3, dtype=torch.float64), []
    for step in x:
        a, b = slow_a @ step, slow_b @ step
        weights = torch.tanh(weights + torch.outer(a, b))
        expected.append(weights @ step)
    writes = WriteInputs((x @ slow_b.T)[None, None], (x @ slow_a.T)[None, None], {})
    reads, after = run_rule(
        ProgrammerRule("tanh"), writes, x[None, None], FastWeightState.zeros(1, 1, 4, 3, dtype=torch.float64)
    )
    assert_close(reads[0, 0], torch.stack(expected), **EXACT)
    assert_close(after.weights[0, 0], weights, **EXACT)


def test_equations_4_to_7_softmax_attention_with_keys_and_values_appended() -> None:
    module, x = SoftmaxAttention(8, 1, key_dim=4).double(), normal(1, 9, 8)
    q, k, v = (x[0] @ module.projection.weight.T).split([4, 4, 8], dim=-1)
    whole, _ = module(x)
    state, expected = None, []
    for i in range(9):
        scores = torch.softmax(k[: i + 1] @ q[i] / math.sqrt(4), dim=0)
        expected.append(module.output.weight @ (v[: i + 1].T @ scores))
        step, state = module(x[:, i : i + 1], state)
        assert_close(step[0, 0], expected[-1], **EXACT)
        assert_close(state.keys[0, 0], k[: i + 1], **EXACT)
        assert_close(state.values[0, 0], v[: i + 1], **EXACT)
    assert_close(whole[0], torch.stack(expected), **EXACT)


@pytest.mark.parametrize("backend", BACKENDS)
def test_equations_8_to_11_attention_without_softmax_is_the_sum_rule(backend: str) -> None:
    module, x = layer(Identity(), SumRule(), backend=backend), normal(1, 70, 8)
    q, k, v = parts(module, x)
    attention = (q @ k.T).tril() @ v
    y, state = module(x)
    assert_close(y[0], attention @ module.output.weight.T, **EXACT)
    assert_close(state.weights[0, 0], sum(torch.outer(v[j], k[j]) for j in range(70)), **EXACT)
    one = layer(Identity(), ProgrammerRule("identity"))
    one.load_state_dict(module.state_dict())
    assert_close(one(x)[0], y, **EXACT)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("feature_map", [EluPlusOne(), DPFP(2), Favor(16)], ids=str)
def test_equations_13_to_19_kernel_attention_is_a_memory_with_a_normaliser(feature_map: object, backend: str) -> None:
    module, x = layer(feature_map, SumRule(), attention_normalisation=True, backend=backend), normal(1, 70, 8)
    q, k, v = parts(module, x)
    phi_q, phi_k = module.mapping(q)[0], module.mapping(k)[0]
    kernel = (phi_q @ phi_k.T).tril()
    y, state = module(x)
    assert_close(y[0], kernel / kernel.sum(-1, keepdim=True) @ v @ module.output.weight.T, **EXACT)
    assert_close(state.weights[0, 0], v.T @ phi_k, **EXACT)
    assert_close(state.normaliser[0, 0], phi_k.sum(0), **EXACT)


def test_equation_12_exp_kernel_attention_is_what_favor_approximates() -> None:
    module, x = layer(Favor(20000), SumRule(), attention_normalisation=True), 0.5 * normal(1, 9, 8)
    q, k, v = parts(module, x)
    exact = torch.softmax((q @ k.T).masked_fill(~torch.ones(9, 9).tril().bool(), -math.inf), dim=-1)
    assert (module(x)[0][0] - exact @ v @ module.output.weight.T).abs().max() < 0.02


def test_equations_20_to_25_the_delta_rule_spelled_out() -> None:
    module, x = layer(EluPlusOne(), DeltaRule(), normalisation=SumNormalisation()), normal(1, 20, 8)
    q, k, v = parts(module, x)
    weights = torch.zeros(8, 4, dtype=torch.float64)
    for i in range(20):
        phi_q, phi_k = (torch.where(u > 0, u + 1, u.exp()) for u in (q[i], k[i]))
        phi_q, phi_k = phi_q / phi_q.sum(), phi_k / phi_k.sum()
        beta = torch.sigmoid(module.projection.weight[-1] @ x[0, i])
        retrieved = weights @ phi_k
        new = beta * v[i] + (1 - beta) * retrieved
        weights = weights + torch.outer(new, phi_k) - torch.outer(retrieved, phi_k)
        assert_close(module(x[:, : i + 1])[0][0, -1], module.output.weight @ (weights @ phi_q), **EXACT)


def test_equations_23_24_and_38_to_40_write_and_remove_is_one_correction() -> None:
    weights, key, value, beta = normal(5, 4), normal(4), normal(5), 0.3
    retrieved = weights @ key
    new = beta * value + (1 - beta) * retrieved
    assert_close(new - retrieved, beta * (value - retrieved), **EXACT)
    written = weights + torch.outer(new, key) - torch.outer(retrieved, key)
    grouped = weights + torch.outer(new - retrieved, key)
    assert_close(grouped, written, **EXACT)
    assert_close(write_once(DeltaRule(), weights, key, value, beta), written, **EXACT)


@pytest.mark.parametrize("backend", BACKENDS)
def test_strength_zero_keeps_and_one_replaces(backend: str) -> None:
    weights, value, key = normal(5, 4), normal(5), torch.nn.functional.normalize(normal(4), dim=0)
    other = torch.linalg.qr(torch.stack([key, normal(4)], dim=1)).Q[:, 1]

    def after(beta: float) -> Tensor:
        strength = torch.full((1, 1, 1), beta, dtype=torch.float64)
        arguments = (key[None, None, None], key[None, None, None], value[None, None, None], strength, strength)
        return fast_weight_scan(*arguments, weights[None, None], backend=backend)[1][0, 0]

    assert torch.equal(after(0.0), weights)
    assert_close(after(1.0) @ key, value, **EXACT)
    assert_close(after(1.0) @ other, weights @ other, **EXACT)
    assert_close(after(0.25) @ key, 0.25 * value + 0.75 * (weights @ key), **EXACT)


def test_the_delta_rule_overwrites_what_the_sum_rule_adds_up() -> None:
    keys, first, second = torch.eye(4, dtype=torch.float64)[:1], normal(5), normal(5)
    for rule, expected in ((DeltaRule(), second), (SumRule(), first + second)):
        once = write_once(rule, torch.zeros(5, 4, dtype=torch.float64), keys[0], first, 1.0)
        assert_close(write_once(rule, once, keys[0], second, 1.0) @ keys[0], expected, **EXACT)


def spelled_out(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Eqs. 24 and 26-28 with v̄₁ = 0, one step after another."""
    weights, z, reads = torch.zeros(v.shape[1], k.shape[1], dtype=torch.float64), torch.zeros(k.shape[1]).double(), []
    for i in range(len(k)):
        retrieved = weights @ k[i] / (z @ k[i]) if i and z @ k[i] > 0 else torch.zeros_like(v[i])
        weights = weights + beta[i] * torch.outer(v[i] - retrieved, k[i])
        z = z + k[i]
        reads.append(weights @ q[i] / (z @ q[i]))
    return torch.stack(reads), weights, z


@pytest.mark.parametrize("backend", BACKENDS)
def test_equations_26_to_28_attention_normalisation_of_the_delta_rule(backend: str) -> None:
    q, k, v, beta = normal(70, 4).exp(), normal(70, 4).exp(), normal(70, 5), torch.rand(70, dtype=torch.float64)
    expected = spelled_out(q, k, v, beta)
    reads, after = run_rule(
        DeltaRule(),
        WriteInputs(k[None, None], v[None, None], {"beta": beta[None, None]}),
        q[None, None],
        FastWeightState.zeros(1, 1, 5, 4, normaliser=True, dtype=torch.float64),
        attention_normalisation=AttentionNormalisation(),
        backend=backend,
    )
    for actual, wanted in zip((reads, after.weights, after.normaliser), expected, strict=True):
        assert_close(actual[0, 0], wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_retrieval_is_zero_and_a_novel_key_is_written_in_full(backend: str) -> None:
    keys, values = torch.eye(4, dtype=torch.float64)[[0, 1, 0]], normal(3, 5)
    _, after = run_rule(
        NormalisedDeltaRule(),
        WriteInputs(keys[None, None], values[None, None], {"beta": torch.ones(1, 1, 3, dtype=torch.float64)}),
        keys[None, None],
        FastWeightState.zeros(1, 1, 5, 4, normaliser=True, dtype=torch.float64),
        attention_normalisation=AttentionNormalisation(),
        backend=backend,
    )
    # Key 1 overlaps with nothing before it, key 0 comes back and retrieves its own first value.
    assert_close(after.weights[0, 0][:, 1], values[1], **EXACT)
    assert_close(after.weights[0, 0][:, 0], values[0] + values[2] - values[0], **EXACT)


def test_equations_41_to_51_each_column_is_written_and_removed_by_weights() -> None:
    weights, key, value = normal(5, 4), normal(4), normal(5)
    updated = write_once(DeltaRule(), weights, key, value, 1.0)
    for i in range(4):
        column = weights[:, i] + key[i] * value - sum(key[i] * key[j] * weights[:, j] for j in range(4))
        assert_close(updated[:, i], column, **EXACT)


def weight_balance(key: Tensor, divisor: Tensor) -> Tensor:
    """(total weight removed) / (weight written) of each column, measured on a memory whose columns are all ones."""
    ones, zero = torch.ones(1, len(key), dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    removed = (ones - write_once(DeltaRule(), ones, key, zero, 1.0))[0] / divisor
    written = write_once(DeltaRule(), 0 * ones, key, zero + 1, 1.0)[0]
    return removed / written


def test_sum_normalisation_balances_and_attention_normalisation_does_not() -> None:
    raw, one = normal(6).exp(), torch.tensor(1.0, dtype=torch.float64)
    normalised = SumNormalisation()(raw)
    assert_close(weight_balance(normalised, one), torch.ones(6, dtype=torch.float64), **EXACT)
    assert_close(weight_balance(raw, one), raw.sum().expand(6), **EXACT)
    z = sum(normal(6).exp() for _ in range(10))
    unbalanced = weight_balance(raw, z @ raw)
    assert_close(unbalanced, (raw.sum() / (z @ raw)).expand(6), **EXACT)
    assert (unbalanced - 1).abs().min() > 0.5


def test_equations_33_to_36_the_four_quadrants_are_orthogonal() -> None:
    signs = torch.tensor([[1, 1], [-1, 1], [1, -1], [-1, -1]], dtype=torch.float64)
    features = DPFP(1)(signs * normal(4, 2).abs())
    products = features @ features.T
    assert (products.diagonal() > 0).all()
    assert torch.equal(products, torch.diag(products.diagonal()))


@pytest.mark.parametrize("rule", [SumRule(), DeltaRule()], ids=str)
@pytest.mark.parametrize(("capacity", "stored"), [(8, 8), (8, 12), (8, 40)])
def test_no_memory_holds_more_than_d_dot_associations(rule: UpdateRule, capacity: int, stored: int) -> None:
    # One-hot values: whatever the keys, the reads of all keys form a matrix of rank ≤ d_dot, and no such matrix is
    # closer to the identity than its rank allows (Eckart and Young), a loss of ½ (1 - d_dot / S) per key.
    bound = 0.5 * max(0.0, 1 - capacity / stored)
    values = torch.eye(stored, dtype=torch.float64)
    frame = torch.linalg.qr(normal(stored, stored)).Q[:, :capacity]
    for keys in (normal(stored, capacity), torch.nn.functional.normalize(normal(stored, capacity), dim=1), frame):
        strengths = torch.ones(1, 1, stored, dtype=torch.float64)
        _, after = run_rule(
            rule,
            WriteInputs(keys[None, None], values[None, None], {"beta": strengths}),
            keys[None, None],
            FastWeightState.zeros(1, 1, stored, capacity, dtype=torch.float64),
        )
        loss = 0.5 * (after.weights[0, 0] @ keys.T - values.T).square().sum(0).mean().item()
        assert loss >= bound - 1e-12
    # The last keys are a tight frame, for which the sum rule reaches the bound.
    if isinstance(rule, SumRule):
        assert loss == pytest.approx(bound, abs=1e-12)
