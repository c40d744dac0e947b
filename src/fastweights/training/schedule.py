"""Learning-rate schedules by name; every one is a function of the update, counted from 1."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class _AfterWarmup:
    """η, the S_w updates of the warm-up, and S, the number of all."""

    peak: float
    warmup_steps: int
    total_steps: int


class WarmupCosine(_AfterWarmup):
    """η_s = η s / S_w  for s ≤ S_w,  then  η_s = η (1 + cos(π s / S)) / 2,  for updates s = 1 … S (App. E).

    The cosine runs over all S updates, so that it is a hair below η where the warm-up ends.
    """

    def __call__(self, update: int) -> float:
        if update <= self.warmup_steps:
            return self.peak * update / self.warmup_steps
        return self.peak * (1 + math.cos(math.pi * min(update / self.total_steps, 1))) / 2


class Constant(_AfterWarmup):
    """η_s = η s / S_w  for s ≤ S_w,  then  η."""

    def __call__(self, update: int) -> float:
        return self.peak * update / self.warmup_steps if update <= self.warmup_steps else self.peak


class InverseSquareRoot(_AfterWarmup):
    """η_s = η min(s / S_w, √(S_w / s)): rises linearly, then falls with the root of the update (Sec. 6.2)."""

    def __call__(self, update: int) -> float:
        warmup = max(self.warmup_steps, 1)
        return self.peak * min(update / warmup, math.sqrt(warmup / update))


SCHEDULES: Mapping[str, Callable[[float, int, int], Schedule]] = {
    "cosine": WarmupCosine,
    "constant": Constant,
    "inverse-square-root": InverseSquareRoot,
}
