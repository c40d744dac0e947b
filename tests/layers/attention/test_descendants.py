"""The paper's descendants as plain loops over the steps of one sequence, from their equations, against whole layers.

Rows that hold several sequences, with padding anywhere and fed in pieces, give what each sequence gives alone.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn.functional import sigmoid, silu, softplus

from fastweights import (
    DecayedSumRule,
    DeltaProductRule,
    DeltaRule,
    FastWeightAttention,
    GatedDeltaRule,
    GatedDeltaRule2,
    GatedNorm,
    GateThenNorm,
    Identity,
    KimiDeltaRule,
    L2Normalisation,
    NoNormalisation,
    Normalisation,
    ShortConvolution,
    UpdateRule,
    backends,
)
from random_problems import relative_error

pytestmark = pytest.mark.usefixtures("one_thread")

MODEL, HEADS, KEY, VALUE, WIDTH = 10, 2, 4, 3, 4
ENDS = [0, 9, 10, 31, 40]
BACKENDS = [name for name, status in backends().items() if status.available]
Step = Callable[[Tensor, Tensor, Tensor, dict[str, Tensor]], Tensor]
"""S (key × value, as the papers write it) after a step with these keys (n × key), values (n × value) and gates."""


def retention(layer: FastWeightAttention, logits: Tensor, head: int) -> Tensor:
    """exp(-A softplus(x + δ)) of one head."""
    learned = layer.gate_parameters["alpha"]
    return torch.exp(-learned["log_rate"][head].exp() * softplus(logits + learned["bias"][head]))


def gated_delta(state: Tensor, k: Tensor, v: Tensor, gate: dict[str, Tensor]) -> Tensor:
    """S = α (I - β k kᵀ) S + β k vᵀ (Gated DeltaNet, Eq. 10)."""
    ((k,), (v,)) = k, v
    state = gate["alpha"] * state
    return state - gate["beta"] * torch.outer(k, k @ state) + gate["beta"] * torch.outer(k, v)


def kimi(state: Tensor, k: Tensor, v: Tensor, gate: dict[str, Tensor]) -> Tensor:
    """S = (I - β k kᵀ) Diag(α) S + β k vᵀ (Kimi Linear, Eq. 1)."""
    ((k,), (v,)) = k, v
    state = torch.diag(gate["alpha"]) @ state
    return (torch.eye(KEY, dtype=k.dtype) - gate["beta"] * torch.outer(k, k)) @ state + gate["beta"] * torch.outer(k, v)


def product(state: Tensor, k: Tensor, v: Tensor, gate: dict[str, Tensor]) -> Tensor:
    """H_j = (I - β_j k_j k_jᵀ) H_{j-1} + β_j k_j v_jᵀ for each of the n writes, after α (Gated DeltaProduct)."""
    state = gate.get("alpha", torch.tensor(1.0)) * state
    for key, value, beta in zip(k, v, gate["beta"], strict=True):
        state = state - beta * torch.outer(key, key @ state) + beta * torch.outer(key, value)
    return state


def gated_delta_2(state: Tensor, k: Tensor, v: Tensor, gate: dict[str, Tensor]) -> Tensor:
    """S = (I - k (b ∘ k)ᵀ) Diag(α) S + k (w ∘ v)ᵀ (Gated DeltaNet-2)."""
    ((k,), (v,)) = k, v
    state = gate["alpha"][:, None] * state
    return state - torch.outer(k, (gate["erase"] * k) @ state) + torch.outer(k, gate["write"] * v)


def mamba2(state: Tensor, k: Tensor, v: Tensor, gate: dict[str, Tensor]) -> Tensor:
    """H = exp(-A Δ) H + Δ B xᵀ (Mamba-2): B is the key, x the value."""
    ((k,), (v,)) = k, v
    return gate["kept"] * state + gate["step"] * torch.outer(k, v)


def gates_by_hand(layer: FastWeightAttention, x: Tensor, logits: Tensor, head: int) -> dict[str, Tensor]:
    """The gates of one head at one step, from its logits in the order of the layer's projection."""
    rule = layer.update_rule
    if isinstance(rule, DecayedSumRule):
        learned = layer.gate_parameters["decay"]
        step = softplus(logits[head] + learned["bias"][head])
        return {"step": step, "kept": torch.exp(-learned["log_rate"][head].exp() * step)}
    largest = 2.0 if getattr(rule, "negative", False) else 1.0
    if isinstance(rule, GatedDeltaRule2):
        erase, write = logits.split([HEADS * KEY, HEADS * VALUE])
        gates = {
            "erase": largest * sigmoid(erase[head * KEY : (head + 1) * KEY]),
            "write": sigmoid(write[head * VALUE : (head + 1) * VALUE]),
        }
    elif isinstance(rule, DeltaProductRule):
        n = rule.num_writes
        gates = {"beta": largest * sigmoid(logits[head * n : (head + 1) * n])}
    else:
        gates = {"beta": largest * sigmoid(logits[head])}
    if isinstance(rule, GatedDeltaRule2 | KimiDeltaRule):
        down, up = layer.low_rank_gates["alpha"]
        own = (up.weight @ (down.weight @ x))[head * KEY : (head + 1) * KEY]
        gates["alpha"] = retention(layer, own, head)
    elif isinstance(rule, GatedDeltaRule) or getattr(rule, "gated", False):
        gates["alpha"] = retention(layer, logits[-HEADS + head], head)
    elif isinstance(rule, DeltaRule):
        gates["alpha"] = torch.tensor(1.0, dtype=x.dtype)
    return gates


def by_hand(layer: FastWeightAttention, step: Step, x: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs for one sequence t × model, and the states of its heads as head × key × value."""
    n, skip = layer.update_rule.writes_per_step, layer.skip
    sizes = [HEADS * KEY, n * HEADS * KEY, n * HEADS * VALUE]
    projected = x @ layer.projection.weight.T
    mixed, logits = projected[:, : sum(sizes)], projected[:, sum(sizes) :]
    taps = layer.convolution.weight
    bias = 0.0 if layer.convolution.bias is None else layer.convolution.bias
    states = [torch.zeros(KEY, VALUE, dtype=x.dtype) for _ in range(HEADS)]
    outputs = []
    for t in range(len(x)):
        seen = [taps[:, WIDTH - 1 - age] * mixed[t - age] for age in range(WIDTH) if t >= age]
        q, k, v = silu(torch.stack(seen).sum(0) + bias).split(sizes)
        reads = []
        for head in range(HEADS):
            query = q[head * KEY : (head + 1) * KEY]
            keys = k.reshape(HEADS, n, KEY)[head]
            values = v.reshape(HEADS, n, VALUE)[head]
            if isinstance(layer.mapping.normalisation, L2Normalisation):
                query, keys = query / query.norm(), keys / keys.norm(dim=-1, keepdim=True)
            states[head] = step(states[head], keys, values, gates_by_hand(layer, x[t], logits[t], head))
            read = layer.read_scale * query @ states[head]
            reads.append(read if skip is None else read + skip[head] * values[0])
        outputs.append(layer.output.weight @ gated(layer, torch.stack(reads), x[t]))
    return torch.stack(outputs), torch.stack(states)


def gated(layer: FastWeightAttention, reads: Tensor, x: Tensor) -> Tensor:
    """The output gate of one step, over reads of head × value."""
    gate = (layer.output_gate.gate.weight @ x).view_as(reads)
    weight = layer.output_gate.weight
    if isinstance(layer.output_gate.choice, GateThenNorm):
        flat = (reads * silu(gate)).flatten()
        return flat / (flat.square().mean() + 1e-5).sqrt() * weight
    normed = reads / (reads.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
    return (normed * silu(gate)).flatten()


MIXERS: dict[str, tuple[UpdateRule, Step, Normalisation]] = {
    "deltanet": (DeltaRule(negative=True), gated_delta, L2Normalisation()),
    "gated-deltanet": (GatedDeltaRule(), gated_delta, L2Normalisation()),
    "gated-deltanet-negative": (GatedDeltaRule(negative=True), gated_delta, L2Normalisation()),
    "kimi": (KimiDeltaRule(), kimi, L2Normalisation()),
    "deltaproduct": (DeltaProductRule(3), product, L2Normalisation()),
    "gated-deltaproduct": (DeltaProductRule(2, gated=True), product, L2Normalisation()),
    "gated-deltanet-2": (GatedDeltaRule2(), gated_delta_2, L2Normalisation()),
    "mamba-2": (DecayedSumRule(), mamba2, NoNormalisation()),
}


def mixer(name: str, backend: str) -> tuple[FastWeightAttention, Step]:
    torch.manual_seed(len(name))
    rule, step, normalisation = MIXERS[name]
    layer = FastWeightAttention(
        MODEL,
        HEADS,
        key_dim=KEY,
        value_dim=VALUE,
        feature_map=Identity(),
        update_rule=rule,
        normalisation=normalisation,
        read_scale=KEY**-0.5,
        backend=backend,
        convolution=ShortConvolution(WIDTH, bias=name == "mamba-2"),
        output_gate=GateThenNorm() if name == "mamba-2" else GatedNorm(),
        value_skip=name == "mamba-2",
    )
    return layer.double(), step


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MIXERS)
def test_a_mixer_is_the_loop_over_its_equation(name: str, backend: str) -> None:
    """Packed, padded and in pieces: outputs, gradients and final states are those of every sequence alone."""
    layer, step = mixer(name, backend)
    x = torch.randn(ENDS[-1], MODEL, dtype=torch.float64, requires_grad=True)
    alone = [by_hand(layer, step, x[start:end]) for start, end in pairwise(ENDS)]
    expected = torch.cat([outputs for outputs, _ in alone])
    real, begins = torch.rand(2 * ENDS[-1]).argsort().argsort() < ENDS[-1], torch.zeros(ENDS[-1], dtype=torch.bool)
    begins[ENDS[:-1]] = True
    row, starts = torch.full((2 * ENDS[-1], MODEL), torch.nan, dtype=torch.float64), torch.zeros_like(real)
    row, starts = row.index_put((real.nonzero()[:, 0],), x), starts.masked_scatter(real, begins)
    state, outputs = None, []
    for start, end in pairwise([0, 1, 17, 18, 50, 2 * ENDS[-1]]):
        part = slice(start, end)
        y, state = layer(row[None, part], state, real[None, part], starts[None, part])
        outputs.append(y[0])
    found = torch.cat(outputs)[real]
    assert relative_error(found.detach(), expected.detach()) <= 1e-12
    assert state is not None
    assert relative_error(state.weights[0].mT.detach(), alone[-1][1].detach()) <= 1e-12
    weights = [x, *layer.parameters()]
    direction = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(y, weights, direction, materialize_grads=True) for y in (found, expected))
    for x_ours, x_theirs in zip(ours, theirs, strict=True):
        assert relative_error(x_ours, x_theirs) <= 1e-11
