"""The experiments with pictures as a value."""

from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from fastweights.config import require_at_least
from fastweights.data.episodes import Episodes
from fastweights.experiments.marked_steps import check_accuracies
from fastweights.files import Json
from fastweights.models.sequence_classifier import SequenceClassifierConfig
from fastweights.training.config import TrainingConfig
from fastweights.training.task import SmallTaskConfig, Task


@dataclass(frozen=True)
class ImagesConfig(SmallTaskConfig):
    """Name pictures by labels that are learned in the episode and change; and what the memory holds without training.

    A sixth of the training pictures is not trained on: episodes of these decide which step is best.
    """

    episodes: Episodes = Episodes()  # noqa: RUF009  a frozen value
    model: SequenceClassifierConfig = SequenceClassifierConfig(convolution=None)  # noqa: RUF009
    hidden_dim: int = 128
    """Units between the pixels and the blocks."""
    times: tuple[int, ...] = (1, 4)
    """Lengths of the test episodes as multiples of the training's."""
    test_rows: int = 128

    needs_data: ClassVar[str] = "give the folder with the IDX files of MNIST as --data FOLDER, or --data drawn"

    def __post_init__(self) -> None:
        if not self.times or min(self.times) < 1 or len(set(self.times)) < len(self.times):
            raise ValueError(f"times: expected different multiples of at least 1, got {self.times}")
        require_at_least(1, self, "hidden_dim", "test_rows")

    @override
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        from fastweights.data.images import open_images
        from fastweights.experiments.images.task import ImagesTask

        return ImagesTask(self, training, open_images(self.given(data)))

    @override
    def check_result(self, result: Json) -> None:
        check_accuracies(result, ("valid", *(f"x{times}" for times in self.times)))

    @override
    def is_measured(self, result: Json) -> bool:
        return "image_memory" in result


CONFIG = ImagesConfig
