"""A task: the data, the model and the loss of one kind of experiment. Loop, checkpoints, sweeps and records are shared.

A family of experiments has a configuration (`TaskConfig`), which opens its `Task`. Everything that a task draws or
reads is a pure function of the seed and the step, so a killed run resumes to the same bits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.files import Json
from fastweights.runs.display import Display
from fastweights.training.carried_state import States
from fastweights.training.config import TrainingConfig

Batch = TypeVar("Batch")
Interrupted = Callable[[], bool]
"""Returns True once the run should stop."""


class Share(NamedTuple):
    """One of `parts` equal shares of a batch: a process's, or one of its accumulation parts."""

    part: int = 0
    parts: int = 1

    def of(self, rows: int) -> slice:
        """The rows of this share, of a batch of `rows` rows."""
        if rows % self.parts:
            raise ValueError(
                f"batch_size: {rows} rows cannot be shared by {self.parts} parts (processes × accumulation)"
            )
        each = rows // self.parts
        return slice(self.part * each, (self.part + 1) * each)


class Evaluation(NamedTuple):
    """The loss that decides which step is best, and the named numbers of a line of metrics."""

    loss: float
    metrics: Mapping[str, float]


class Task(ABC, Generic[Batch]):
    """What is learned. Every method that takes a step counts steps from 0, unless it says otherwise."""

    training: TrainingConfig
    unit: str = "sequence"
    """The unit of speed."""
    try_next: str = ""
    """The command that uses a trained model."""

    @abstractmethod
    def build(self) -> nn.Module:
        """The initial model, checked: what cannot be trained raises before a run claims its folder."""

    @abstractmethod
    def batch(self, step: int, share: Share) -> Batch:
        """A share of the batch of a step."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, states: States | None) -> tuple[Tensor, States | None]:
        """The mean loss of a share and, if memories are carried on, the detached states after it."""

    @abstractmethod
    def evaluate(self, model: nn.Module, step: int, interrupted: Interrupted) -> Evaluation | None:
        """Evaluate the model after `step` updates; None if it was interrupted."""

    def rows(self, step: int, share: Share) -> Sequence[int]:
        """The numbers of a share's rows in the whole batch: dropout masks follow from them."""
        return (share.part,)

    def starts_anew(self, step: int) -> bool:
        """True if nothing is carried into a step, so that random features may be redrawn before it."""
        return True

    def initial_states(self, model: nn.Module, rows: int) -> States | None:
        """Empty states of `rows` rows, for tasks that carry states; checkpoints are checked against them."""
        return None

    def epoch(self, step: int) -> int:
        """The number of passes over the data before a step."""
        return 0

    def metric_names(self) -> tuple[str, ...]:
        """The names of the numbers that an evaluation gives."""
        return ("valid_loss",)

    def place(self, step: int) -> str:
        """A description of the step for messages."""
        return f"step {step + 1}"

    def units(self, step: int) -> int:
        """How many units a step processes, over all shares: the rows of its batch, unless a task counts otherwise."""
        return self.training.batch_size

    def shown(self, loss: float) -> dict[str, float]:
        """Other forms of a loss that people read, by name."""
        return {}

    def shown_validation(self, loss: float) -> dict[str, float]:
        """The same for the loss that decides which step is best."""
        return self.shown(loss)

    def summary(self, evaluations: Sequence[Json]) -> Json:
        """Entries of the result beside losses and steps, computed from the metrics of the evaluations."""
        return {}

    def measure(self, folder: Path, device: torch.device, display: Display) -> Json:
        """Measure the model of a finished run for the record."""
        return {}

    def files(self) -> dict[str, str]:
        """Texts that a run keeps in its folder, such as a vocabulary, by file name."""
        return {}


class Measurement(Task[None]):
    """A task in which nothing is learned: a run of no steps, whose `measure` is the whole experiment."""

    @override
    def batch(self, step: int, share: Share) -> None:
        raise NotImplementedError

    @override
    def loss(self, model: nn.Module, batch: None, states: States | None) -> tuple[Tensor, States | None]:
        raise NotImplementedError

    @override
    def evaluate(self, model: nn.Module, step: int, interrupted: Interrupted) -> Evaluation | None:
        raise NotImplementedError


@dataclass(frozen=True)
class TaskConfig(ABC):
    """Everything about a task that decides the numbers of a run; each family of experiments has one."""

    threads: ClassVar[int | None] = None
    """Threads that a run must use, so that sums are added in the same order everywhere; None for any number."""
    keeps_model: ClassVar[bool] = True
    """False for tasks of which only the curve is wanted: their checkpoints are removed when the run is done."""
    needs_data: ClassVar[str] = ""
    """For tasks with data of their own: what a user should be told who names none."""
    moved: ClassVar[Mapping[str, str]] = {}
    """Paths of fields as earlier versions had them, with their place in a run: old files and --set accept them."""
    implied: ClassVar[Mapping[str, Any]] = {}
    """Values that earlier versions used without having a field for them, by the path of today's field."""

    @abstractmethod
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        """The task, with its data from a folder, a file or a name."""

    def given(self, data: str | None) -> str:
        """The folder, file or name of the data; a ValueError says what is needed if there is none."""
        if data is None:
            raise ValueError(f"data: {self.needs_data}")
        return data

    def empty_model(self) -> nn.Module:
        """The model without its weights, for tasks whose models are used after training."""
        raise ValueError(f"{type(self).__name__}: runs of this task keep no model")

    @property
    def slug(self) -> str:
        """A readable name of a run's task; empty if the name of the preset says it."""
        return ""

    def check_result(self, result: Json) -> None:  # noqa: B027  not every task has something to check
        """Raise a ValueError if a record's result holds something else than what tables and figures need."""

    def is_measured(self, result: Json) -> bool:
        """False if a record's result lacks what `Task.measure` adds, as that of a run outside a sweep does."""
        return True

    def cost(self, training: TrainingConfig) -> float:
        """About how long a run takes, in no particular unit: sweeps start long runs first."""
        return float(training.steps)


class SmallTaskConfig(TaskConfig):
    """A task whose runs are small: each has one thread, and only its curve is wanted."""

    threads: ClassVar[int | None] = 1
    keeps_model: ClassVar[bool] = False
