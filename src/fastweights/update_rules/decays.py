"""Gates that say how much of the memory a step keeps, as the published models compute and initialise them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus
from typing_extensions import override

from fastweights.update_rules.gates import Gate


@dataclass(frozen=True)
class Decay(Gate):
    """g in [0, 1]: W ← g W, or W ← W diag(g) if it is one number `per` component of the key."""

    label: str = "decay"

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per not in ("head", "key"):
            raise ValueError(f"per: expected 'head', or 'key' for each of its components, got {self.per!r}")

    def split(self, gate: Tensor) -> tuple[Tensor, Tensor | None]:
        """The decay and, where it has a say in that too, the write strength."""
        return gate, None


@dataclass(frozen=True)
class SoftplusDecay(Decay):
    """g = exp(-A softplus(W x + δ)),  A = exp(`log_rate`)  per head.

    Initially A is uniform in [lowest_rate, highest_rate] and softplus(δ), the time step of a zero input, log-uniform in
    [0.001, 0.1], so that heads forget within a few steps to a few thousand (Mamba-2, Gated DeltaNet).
    """

    lowest_rate: float = 0.01
    highest_rate: float = 16.0

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.lowest_rate <= self.highest_rate:
            raise ValueError(f"rates: expected 0 < lowest ≤ highest, got {self.lowest_rate} and {self.highest_rate}")

    @override
    def parameters(self, num_heads: int, components: int) -> dict[str, Tensor]:
        rates = torch.empty(num_heads).uniform_(self.lowest_rate, self.highest_rate)
        steps = torch.empty(num_heads, components).uniform_(math.log(1e-3), math.log(1e-1)).exp().clamp(min=1e-4)
        bias = steps + torch.log(-torch.expm1(-steps))  # softplus(bias) = steps
        return {"log_rate": rates.log(), "bias": bias.squeeze(-1) if self.per == "head" else bias}

    @override
    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        return torch.exp(-_per_head(parameters["log_rate"].exp(), logits) * self.time_steps(logits, **parameters))

    def time_steps(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        """softplus(W x + δ), in at least float32."""
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return softplus(logits + parameters["bias"].unsqueeze(1))


@dataclass(frozen=True)
class Mamba2Decay(SoftplusDecay):
    """Δ = softplus(W x + δ),  g = exp(-A Δ),  b = Δ: a longer step forgets and writes more.

    Δ is kept between `shortest` and `longest`.
    """

    lowest_rate: float = 1.0
    shortest: float = 0.0
    longest: float | None = None

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per != "head":
            raise ValueError(f"per: Mamba-2 has one time step for a head, got {self.per!r}; possible: 'head'")
        if self.shortest < 0 or (self.longest is not None and self.longest < self.shortest):
            raise ValueError(f"time steps: expected 0 ≤ shortest ≤ longest, got {self.shortest} and {self.longest}")

    @override
    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        steps = self.time_steps(logits, **parameters).clamp(self.shortest, self.longest)
        return torch.stack([torch.exp(-_per_head(parameters["log_rate"].exp(), logits) * steps), steps], dim=-1)

    @override
    def split(self, gate: Tensor) -> tuple[Tensor, Tensor | None]:
        decay, steps = gate.unbind(-1)
        return decay, steps


@dataclass(frozen=True)
class KimiDecay(SoftplusDecay):
    """g = exp(-A softplus(W_up W_down x + δ)) for every component of the key, A per head (Kimi Delta Attention).

    With a `log_bound` below zero, g = exp(log_bound σ(A (W_up W_down x + δ))), which stays above exp(log_bound).
    """

    per: Literal["head", "key", "value"] = "key"
    rank: int | Literal["head"] | None = "head"
    lowest_rate: float = 1.0
    log_bound: float | None = None

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.log_bound is not None and not self.log_bound < 0:
            raise ValueError(f"log_bound: expected a number below 0, or None, got {self.log_bound}")

    @override
    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        if self.log_bound is None:
            return super().__call__(logits, **parameters)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        rate = _per_head(parameters["log_rate"].exp(), logits)
        return torch.exp(self.log_bound * torch.sigmoid(rate * (logits + parameters["bias"].unsqueeze(1))))


@dataclass(frozen=True)
class GatedLinearDecay(Decay):
    """g = σ(W_up W_down x + δ)^(1/temperature) for every component of the key (gated linear attention)."""

    per: Literal["head", "key", "value"] = "key"
    rank: int | Literal["head"] | None = 16
    temperature: float = 16.0

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.temperature > 0:
            raise ValueError(f"temperature: expected a number above 0, got {self.temperature}")

    @override
    def parameters(self, num_heads: int, components: int) -> dict[str, Tensor]:
        return {"bias": torch.zeros(num_heads, components)}

    @override
    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return torch.exp(logsigmoid(logits + parameters["bias"].unsqueeze(1)) / self.temperature)


@dataclass(frozen=True)
class RetNetDecay(Decay):
    """g = 1 - 2^(-5 - h) for head h = 0, 1, …: fixed, each head forgets half as fast as the one before."""

    from_input: ClassVar[bool] = False

    @override
    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        return _constant(lambda heads: 1.0 - torch.exp2(-5.0 - heads), logits)


@dataclass(frozen=True)
class LightningDecay(Decay):
    """g = exp(-2^(-8 (h + 1) / H) (1 - depth))  for head h of H: fixed.

    `depth` is 0 for the first layer of a model, 1 for the last: later layers forget less.
    """

    depth: float = 0.0
    from_input: ClassVar[bool] = False

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.depth <= 1:
            raise ValueError(f"depth: expected a number from 0 to 1, got {self.depth}")

    @override
    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        count = logits.shape[1]
        return _constant(lambda heads: torch.exp(-torch.exp2(-8 * (heads + 1) / count) * (1 - self.depth)), logits)


def _per_head(x: Tensor, logits: Tensor) -> Tensor:
    """One number per head beside logits of `b h t` or `b h t ·`."""
    return x.reshape(-1, *[1] * (logits.dim() - 2))


def _constant(of_heads: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """The same numbers at every step, in at least float32; `logits` have no components and say the shape."""
    batch, num_heads, steps = logits.shape[:3]
    dtype = torch.promote_types(logits.dtype, torch.float32)
    heads = torch.arange(num_heads, dtype=torch.float64, device=logits.device)
    return of_heads(heads).to(dtype)[None, :, None].expand(batch, num_heads, steps)


DECAYS: dict[str, type[Decay]] = {
    "softplus": SoftplusDecay,
    "mamba2": Mamba2Decay,
    "kimi": KimiDecay,
    "gated-linear": GatedLinearDecay,
    "retnet": RetNetDecay,
    "lightning": LightningDecay,
}
