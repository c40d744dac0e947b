"""Recall as a value: which problem, and which model learns it."""

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fastweights.data.bindings import Bindings
from fastweights.data.words import GroupWords
from fastweights.experiments.marked_steps import check_accuracies
from fastweights.files import Json
from fastweights.models.sequence_classifier import SequenceClassifierConfig
from fastweights.training.config import TrainingConfig
from fastweights.training.task import SmallTaskConfig, Task


@dataclass(frozen=True)
class RecallConfig(SmallTaskConfig):
    """Answer the questions of a problem, at the length of the training sequences and at multiples of it."""

    problem: GroupWords | Bindings
    model: SequenceClassifierConfig = SequenceClassifierConfig()  # noqa: RUF009  a frozen value
    times: tuple[int, ...] = (1, 4)
    """Lengths of the tests as multiples of the training's; the first one decides which step is best."""
    test_rows: int = 64
    label_smoothing: float = 0.0
    """What a target gives to all classes alike. Once all answers are right, the loss still asks for the same scores
    at every step: a state has to be kept, not only to be on the right side."""

    def __post_init__(self) -> None:
        if not self.times or min(self.times) < 1 or len(set(self.times)) < len(self.times):
            raise ValueError(f"times: expected different multiples of at least 1, got {self.times}")
        if self.test_rows < 1:
            raise ValueError(f"test_rows: expected at least 1 sequence, got {self.test_rows}")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing: expected a share from 0 to below 1, got {self.label_smoothing}")

    @override
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        from fastweights.experiments.recall.task import RecallTask

        return RecallTask(self, training)

    @property
    def tests(self) -> dict[str, int]:
        """The multiple of the length by the name of its test, such as x4."""
        return {f"x{times}": times for times in self.times}

    @override
    def check_result(self, result: Json) -> None:
        check_accuracies(result, tuple(self.tests))

    @override
    def cost(self, training: TrainingConfig) -> float:
        length = self.problem.length if isinstance(self.problem, GroupWords) else 2 * self.problem.events
        return float(training.steps * training.batch_size * length * self.model.num_layers)


CONFIG = RecallConfig
