"""How a memory follows keys whose scale is kept apart from them (docs/math.md#stabilised-favor)."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fastweights.shapes import Mask, PerHead, PerStep


class Rescaling(NamedTuple):
    """How a memory that is kept as exp(-M_t) W_t follows the running maximum M_t = max(M_{t-1}, s_t).

    The old weights decay by exp(M_{t-1} - M_t), a write is scaled by exp(s_t - M_t). Both are at most 1 and depend on
    no later step, and reads that are divided by z do not change.
    """

    decay: PerStep
    write: PerStep
    final: PerHead

    @classmethod
    def of(
        cls, log_scales: PerStep | None, before: PerHead | None, boundaries: Mask | None = None
    ) -> "Rescaling | None":
        """The rescaling for keys with the log scales s_t after a memory with M_0 = `before`; None if keys have none.

        Where a packed sequence begins, the maximum begins anew.
        """
        if log_scales is None:
            return None
        if before is None:
            raise ValueError("keys with a scale apart need a state with a log_scale, got one without")
        scales = torch.cat([before[..., None], log_scales], dim=-1)
        maxima = scales.cummax(dim=-1).values if boundaries is None else _running_maximum(scales, boundaries)
        # exp(-60) is far below rounding; a floor keeps divisions by the decay finite.
        return cls(
            (maxima[..., :-1] - maxima[..., 1:]).clamp(min=-60, max=0).exp(),
            (log_scales - maxima[..., 1:]).exp(),
            scales.amax(dim=-1) if boundaries is None else maxima[..., -1],
        )


def _running_maximum(scales: Tensor, boundaries: Mask) -> Tensor:
    """max of all scales since the last boundary, in log₂ t rounds: after each, of twice as many."""
    begins = pad(boundaries[:, None].expand(-1, scales.shape[1], -1), (1, 0))
    reach = 1
    while reach < scales.shape[-1]:
        earlier = pad(scales[..., :-reach], (reach, 0), value=-torch.inf)
        scales = torch.where(begins, scales, torch.maximum(scales, earlier))
        begins = begins | pad(begins[..., :-reach], (reach, 0), value=True)
        reach *= 2
    return scales
