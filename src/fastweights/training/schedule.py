"""Learning-rate schedules (App. E)."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class WarmupCosine:
    """η_s = η s / S_w  for s ≤ S_w,  then  η_s = η (1 + cos(π s / S)) / 2,  for updates s = 1 … S.

    The cosine runs over all S updates, so that it is a hair below η where the warm-up ends.
    """

    peak: float
    warmup_steps: int
    total_steps: int

    def __call__(self, update: int) -> float:
        """The learning rate of an update, counted from 1."""
        if update <= self.warmup_steps:
            return self.peak * update / self.warmup_steps
        return self.peak * (1 + math.cos(math.pi * min(update / self.total_steps, 1))) / 2
