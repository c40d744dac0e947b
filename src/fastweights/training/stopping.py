"""When a run ends before its last step."""

import math
from dataclasses import dataclass

from fastweights.training.progress import TrainingProgress


@dataclass(frozen=True)
class Stopping:
    """Stop at an evaluation loss of `target` or below, or after `patience` evaluations without a new minimum."""

    target: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.target is not None and not 0 <= self.target < math.inf:
            raise ValueError(f"target: expected a finite number of at least 0, got {self.target}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience: expected at least 1 evaluation, got {self.patience}")

    def reason(self, progress: TrainingProgress, steps: int) -> str | None:
        """solved, patience, not-finite, or limit after the last step; None while there is none."""
        loss = progress.valid_loss
        if self.target is not None and loss is not None and loss <= self.target:
            return "solved"
        if self.patience is not None and progress.evaluations_since_best >= self.patience:
            return "patience" if loss is not None else "not-finite"
        return "limit" if progress.step >= steps else None
