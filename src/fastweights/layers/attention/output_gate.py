"""What is done to the reads of a memory before the output projection: a norm, and a gate that the input computes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from fastweights.layers.attention.low_rank import linear
from fastweights.shapes import Inputs

Reads = Float[Tensor, "b t h v"]


@dataclass(frozen=True)
class OutputGate(ABC):
    """A choice of norm and gate; `build` makes the module with its weights."""

    @abstractmethod
    def build(self, model_dim: int, num_heads: int, value_dim: int) -> nn.Module:
        """A module with `forward(reads, x) -> gated reads`, both reads of shape b t h v."""


@dataclass(frozen=True)
class GatedNorm(OutputGate):
    """y ← RMSNorm(y) ∘ activation(W_g x), the norm over each head alone (Gated DeltaNet, Kimi Delta Attention).

    `rank` makes W_g a product of two matrices; "head" is as many as a head has values.
    """

    activation: Literal["silu", "sigmoid"] = "silu"
    rank: int | Literal["head"] | None = None
    bias: bool = False
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        if self.activation not in ("silu", "sigmoid"):
            raise ValueError(f"activation: expected 'silu' or 'sigmoid', got {self.activation!r}")
        if isinstance(self.rank, int) and self.rank < 1:
            raise ValueError(f"rank: expected at least 1, 'head' or None, got {self.rank}")
        _check_epsilon(self.epsilon)

    @override
    def build(self, model_dim: int, num_heads: int, value_dim: int) -> nn.Module:
        rank = value_dim if self.rank == "head" else self.rank
        return _NormThenGate(self, linear(model_dim, num_heads * value_dim, rank, self.bias), value_dim)


@dataclass(frozen=True)
class GateThenNorm(OutputGate):
    """y ← RMSNorm(y ∘ silu(W_g x)), the norm over all heads together (Mamba-2)."""

    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    @override
    def build(self, model_dim: int, num_heads: int, value_dim: int) -> nn.Module:
        return _GateThenNorm(self, linear(model_dim, num_heads * value_dim), num_heads * value_dim)


def _check_epsilon(epsilon: float) -> None:
    if not epsilon > 0:
        raise ValueError(f"epsilon: expected a number above 0, got {epsilon}")


OUTPUT_GATES: dict[str, type[OutputGate]] = {"norm-then-gate": GatedNorm, "gate-then-norm": GateThenNorm}


class _NormThenGate(nn.Module):
    def __init__(self, choice: GatedNorm, gate: nn.Module, size: int) -> None:
        super().__init__()
        self.choice, self.gate = choice, gate
        self.weight = nn.Parameter(torch.ones(size))

    @override
    def forward(self, reads: Reads, x: Inputs) -> Reads:
        logits = self.gate(x).unflatten(-1, reads.shape[2:])
        gate = nn.functional.silu(logits) if self.choice.activation == "silu" else logits.sigmoid()
        return _rms_norm(reads, self.weight, self.choice.epsilon) * gate


class _GateThenNorm(nn.Module):
    def __init__(self, choice: GateThenNorm, gate: nn.Module, size: int) -> None:
        super().__init__()
        self.choice, self.gate = choice, gate
        self.weight = nn.Parameter(torch.ones(size))

    @override
    def forward(self, reads: Reads, x: Inputs) -> Reads:
        gated = reads.flatten(2) * nn.functional.silu(self.gate(x))
        return _rms_norm(gated, self.weight, self.choice.epsilon).unflatten(-1, reads.shape[2:])


def _rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x / √(mean x² + ε) ∘ weight, in at least float32."""
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    normed = exact * torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + epsilon)
    return normed.to(x.dtype) * weight.to(x.dtype)
