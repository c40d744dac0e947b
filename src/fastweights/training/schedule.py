"""Learning-rate schedules by name; every one is a function of the update, counted from 1."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class WarmupCosine:
    """η_s = η s / S_w  for s ≤ S_w,  then  η_s = η (1 + cos(π s / S)) / 2,  for updates s = 1 … S (App. E).

    The cosine runs over all S updates, so that it is a hair below η where the warm-up ends.
    """

    peak: float
    warmup_steps: int
    total_steps: int

    def __call__(self, update: int) -> float:
        if update <= self.warmup_steps:
            return self.peak * update / self.warmup_steps
        return self.peak * (1 + math.cos(math.pi * min(update / self.total_steps, 1))) / 2


@dataclass(frozen=True)
class Constant:
    """η_s = η s / S_w  for s ≤ S_w,  then  η."""

    peak: float
    warmup_steps: int
    total_steps: int

    def __call__(self, update: int) -> float:
        return self.peak * update / self.warmup_steps if update <= self.warmup_steps else self.peak


@dataclass(frozen=True)
class InverseSquareRoot:
    """η_s = η min(s / S_w, √(S_w / s)): rises linearly, then falls with the root of the update (Sec. 6.2)."""

    peak: float
    warmup_steps: int
    total_steps: int

    def __call__(self, update: int) -> float:
        warmup = max(self.warmup_steps, 1)
        return self.peak * min(update / warmup, math.sqrt(warmup / update))


SCHEDULES: Mapping[str, Callable[[float, int, int], Schedule]] = {
    "cosine": WarmupCosine,
    "constant": Constant,
    "inverse-square-root": InverseSquareRoot,
}
