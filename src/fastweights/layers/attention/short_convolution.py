"""A causal convolution over a few steps, which the successors of the delta rule put before keys, queries and values."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv1d, silu
from typing_extensions import override

from fastweights.memory.packing import places
from fastweights.shapes import Mask


@dataclass(frozen=True)
class ShortConvolution:
    """y_t = silu(Σ_{i<width} c_i ∘ x_{t-i} + bias): every channel looks back `width` - 1 steps, each for itself."""

    width: int = 4
    bias: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.width, int) or self.width < 1:
            raise ValueError(f"ShortConvolution: width must be a whole number, at least 1, got {self.width}")

    def build(self, channels: int) -> "CausalConvolution":
        """The module, with weights of its own."""
        return CausalConvolution(channels, self.width, self.bias)


class CausalConvolution(nn.Module):
    """The convolution with its state: the last `width` - 1 inputs of every sequence, zeros before the first.

    Padded steps are skipped, wherever they are: the state and the inputs of the steps around them are those of the
    sequence without padding. Where a packed sequence begins, steps before are not seen.
    """

    def __init__(self, channels: int, width: int, bias: bool) -> None:
        super().__init__()
        self.width = width
        bound = width**-0.5  # as nn.Conv1d does
        self.weight = nn.Parameter(torch.empty(channels, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    def initial_state(
        self, batch: int, dtype: torch.dtype, device: torch.device | str | None
    ) -> Float[Tensor, "b w c"]:
        """Nothing seen yet."""
        return torch.zeros(batch, self.width - 1, self.weight.shape[0], dtype=dtype, device=device)

    @override
    def forward(
        self,
        x: Float[Tensor, "b t c"],
        before: Float[Tensor, "b w c"],
        mask: Mask | None = None,
        boundaries: Mask | None = None,
    ) -> tuple[Float[Tensor, "b t c"], Float[Tensor, "b w c"]]:
        """The convolved inputs and the state after them."""
        order = None
        if mask is not None:  # real steps first, so that padded ones stand between no two of them
            order = mask.long().argsort(dim=1, descending=True, stable=True)
            x = x.gather(1, order[..., None].expand_as(x))
            boundaries = None if boundaries is None else boundaries.gather(1, order)
        # The age of the oldest step that may be seen; beyond any width where no sequence begins.
        oldest = None
        if boundaries is not None:
            oldest = places(boundaries, None, torch.full_like(boundaries[:, :1].sum(1), self.width))
        seen = torch.cat([before.to(x.dtype), x], dim=1)
        y = silu(self._convolve(seen, oldest))
        count = None if mask is None else mask.sum(dim=1)
        after = self._last(seen, count, oldest)
        if order is None or mask is None:
            return y, after
        y = torch.empty_like(y).scatter(1, order[..., None].expand_as(y), y)
        return y.masked_fill(~mask[..., None], 0.0), after

    def _convolve(self, seen: Tensor, oldest: Tensor | None) -> Tensor:
        steps = seen.shape[1] - self.width + 1
        weight = self.weight.to(seen.dtype)
        bias = None if self.bias is None else self.bias.to(seen.dtype)
        if steps == 0:
            return seen[:, :0]
        if oldest is None:
            return conv1d(seen.mT, weight[:, None], bias, groups=weight.shape[0]).mT
        y = torch.zeros_like(seen[:, :steps]) if bias is None else bias.expand_as(seen[:, :steps])
        for age in range(self.width):
            tap = self.width - 1 - age
            y = y + weight[:, tap] * seen[:, tap : tap + steps].masked_fill((oldest < age)[..., None], 0.0)
        return y

    def _last(self, seen: Tensor, count: Tensor | None, oldest: Tensor | None) -> Tensor:
        """The last `width` - 1 inputs, of which those before the last sequence begins count as zeros."""
        kept, steps = self.width - 1, seen.shape[1] - self.width + 1
        places_of_kept = torch.arange(kept, device=seen.device).expand(seen.shape[0], kept)
        ends = torch.full_like(places_of_kept[:, 0], steps) if kept and count is None else count
        if kept == 0 or ends is None:
            return seen[:, :0]
        chosen = (places_of_kept + ends[:, None])[..., None].expand(-1, -1, seen.shape[2])
        last = seen.gather(1, chosen)
        if oldest is None or steps == 0:
            return last
        newest = oldest.gather(1, (ends - 1).clamp(min=0)[:, None])
        unseen = (kept - 1 - places_of_kept > newest) & (ends > 0)[:, None]
        return last.masked_fill(unseen[..., None], 0.0)
