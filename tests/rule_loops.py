"""The rules of known layers as plain loops over steps, heads and sequences, in the layouts of their authors."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu, softplus


def random_sequence(shapes: dict[str, tuple[int, ...]], dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Random arguments that need gradients; g is a logarithm of a decay, beta in (0, 1), dt positive."""
    generator = torch.Generator().manual_seed(sum(map(sum, shapes.values())))
    drawn = {name: torch.randn(shape, dtype=torch.float64, generator=generator) for name, shape in shapes.items()}
    if "g" in drawn:
        drawn["g"] = -softplus(drawn["g"])
    if "beta" in drawn:
        drawn["beta"] = drawn["beta"].sigmoid()
    return {name: x.to(dtype).requires_grad_() for name, x in drawn.items()}


def positional(function: Callable[..., Any]) -> str:
    """The names of the arguments that need not be named."""
    parameters = signature(function).parameters.values()
    return " ".join(one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD)


def gradients(results: tuple[Tensor, Tensor], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The gradients of a weighted sum of all results."""
    total: Tensor = sum(  # type: ignore[assignment]
        (x * torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view(x.shape)).sum() for x in results
    )
    return dict(zip(inputs, torch.autograd.grad(total, list(inputs.values()), retain_graph=True), strict=True))


def delta_rule_by_hand(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor,
    normalised: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """S ← diag(eᵍ) S,  S ← S + β k (v - Sᵀk)ᵀ,  o = scale · Sᵀ q."""
    batch, steps, heads, _ = v.shape
    if normalised:
        q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    factor = k.shape[-1] ** -0.5 if scale is None else scale
    share = heads // k.shape[2]
    reads: list[list[list[Tensor]]] = []
    finals = []
    for row in range(batch):
        reads.append([])
        for head in range(heads):
            state, own = initial_state[row, head], []
            for t in range(steps):
                key, query = k[row, t, head // share], q[row, t, head // share]
                decay = g[row, t, head].exp()
                state = state * (decay[:, None] if decay.dim() else decay)
                wrong = v[row, t, head] - key @ state
                state = state + beta[row, t, head] * torch.outer(key, wrong)
                own.append(factor * query @ state)
            finals.append(state)
            reads[-1].append(own)
    stacked = torch.stack([torch.stack([torch.stack(own) for own in row]) for row in reads])
    return stacked.transpose(1, 2), torch.stack(finals).unflatten(0, (batch, heads))


def mamba2_by_hand(
    x: Tensor,
    dt: Tensor,
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    C: Tensor,  # noqa: N803
    D: Tensor,  # noqa: N803
    dt_bias: Tensor,
    initial_states: Tensor,
    z: Tensor | None = None,
    limit: tuple[float, float] = (0.0, float("inf")),
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """W ← exp(A Δ) W + Δ x Bᵀ,  y = W C + D x,  Δ = softplus(dt + bias) within the limit."""
    batch, steps, heads, _p = x.shape
    share = heads // B.shape[2]
    reads, finals = torch.zeros_like(x), []
    for row in range(batch):
        for head in range(heads):
            state = initial_states[row, head]
            for t in range(steps):
                step = softplus(dt[row, t, head] + dt_bias[head]).clamp(*limit)
                key, query = B[row, t, head // share], C[row, t, head // share]
                state = (A[head] * step).exp() * state + step * torch.outer(x[row, t, head], key)
                y = state @ query + D[head] * x[row, t, head]
                y = y if z is None else y * silu(z[row, t, head])
                reads = reads.index_put((torch.tensor(row), torch.tensor(t), torch.tensor(head)), y)
            finals.append(state)
    return reads, torch.stack(finals).unflatten(0, (batch, heads))
