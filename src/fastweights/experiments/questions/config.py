"""Question answering as a value: which task of bAbI, how many training questions, and which model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from fastweights.experiments.marked_steps import check_accuracies
from fastweights.files import Json
from fastweights.models.sequence_classifier import SequenceClassifierConfig
from fastweights.training.config import TrainingConfig
from fastweights.training.task import SmallTaskConfig, Task


@dataclass(frozen=True)
class QuestionsConfig(SmallTaskConfig):
    """Answer the questions of one task of bAbI; a tenth of the training stories decides which step is best."""

    number: int = 1
    """The task, qa1 to qa20."""
    examples: int = 10_000
    """Training questions, the validation's included; 1000 and 10000 are published."""
    model: SequenceClassifierConfig = SequenceClassifierConfig()  # noqa: RUF009  a frozen value

    needs_data: ClassVar[str] = "give the folder of bAbI, the one with en/ and en-10k/, as --data FOLDER"

    def __post_init__(self) -> None:
        if not 1 <= self.number <= 20:
            raise ValueError(f"number: bAbI has the tasks 1 to 20, got {self.number}")
        if self.examples < 10:
            raise ValueError(f"examples: expected at least 10 questions, got {self.examples}")

    @override
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        from fastweights.data.babi import open_task
        from fastweights.experiments.questions.task import QuestionsTask

        return QuestionsTask(self, training, open_task(Path(self.given(data)), self.number, self.examples))

    @override
    def check_result(self, result: Json) -> None:
        check_accuracies(result, ("valid", "test"))

    @override
    def cost(self, training: TrainingConfig) -> float:
        return float(training.steps * training.batch_size * self.model.num_layers)


CONFIG = QuestionsConfig
