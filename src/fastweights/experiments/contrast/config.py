"""A memory that is trained to overwrite, and then looked into, as a value."""

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fastweights.experiments.memories import memory_name
from fastweights.experiments.retrieval.config import RetrievalConfig
from fastweights.experiments.retrieval.reads import FastWeightRead, Read
from fastweights.files import Json
from fastweights.training.config import TrainingConfig
from fastweights.training.task import SmallTaskConfig, Task


@dataclass(frozen=True)
class ContrastConfig(SmallTaskConfig):
    """The overwriting task (setting 2 of Sec. 6.1) for S keys; the trained memory's writes are traced."""

    attention: Read
    num_keys: int = 20
    key_dim: int = 64
    longest: int = 1280
    """Pairs of the longest sequence that the trained memory is given."""

    def __post_init__(self) -> None:
        if self.longest < 2 * self.num_keys:
            raise ValueError(f"longest: expected at least the training length {2 * self.num_keys}, got {self.longest}")
        _ = self.read, self.retrieval

    @property
    def read(self) -> FastWeightRead:
        """The memory and how it is read."""
        if not isinstance(self.attention, FastWeightRead):
            raise ValueError(f"attention: only fast weights have writes to trace, got {type(self.attention).__name__}")
        return self.attention

    @property
    def retrieval(self) -> RetrievalConfig:
        """The task that the memory is trained on."""
        return RetrievalConfig("overwriting", self.num_keys, self.attention, self.key_dim)

    @override
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        from fastweights.experiments.contrast.task import ContrastTask

        return ContrastTask(self, training)

    @property
    def memory(self) -> str:
        """The name of the memory."""
        read = self.read
        return memory_name(read.update_rule, read.normalisation, read.attention_normalisation)

    @property
    @override
    def slug(self) -> str:
        return f"contrast-{self.memory}-S{self.num_keys}"

    @override
    def is_measured(self, result: Json) -> bool:
        return "writes" in result

    @override
    def cost(self, training: TrainingConfig) -> float:
        # Reads that are divided by z go step by step.
        return self.retrieval.cost(training) * (1 if self.read.attention_normalisation is None else 10)


CONFIG = ContrastConfig
