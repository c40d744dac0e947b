"""Language modelling as a value: everything about the task that decides the numbers of a run (Sec. 6.3, App. E)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from torch import nn
from typing_extensions import override

from fastweights.config import require_at_least
from fastweights.evaluation.perplexity import CarriedState, Context, IndependentSegments, SlidingWindow
from fastweights.files import Json
from fastweights.models.attention import AttentionConfig, FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.runs.record import is_number
from fastweights.training.config import TrainingConfig
from fastweights.training.task import Task, TaskConfig
from fastweights.update_rules import SumRule


@dataclass(frozen=True)
class Carrying:
    """What happens to a carried memory in training; by default it lasts until the epoch ends, as in the paper."""

    reset_chance: float = 0.0
    """With which each column's memory is reset before a segment."""
    reset_every: int = 0
    """Segments after which all memories are reset, as if columns were so short; 0 for never."""
    rewritten: int = 0
    """Segments that the present weights read again before each step, from an empty memory, in place of one that was
    written by earlier weights; 0 to carry that."""
    published_gradient: bool = False
    """True to train the sum rule as its published kernel does, which leaves out of the gradient of queries what the
    carried memory holds."""

    def __post_init__(self) -> None:
        if not 0 <= self.reset_chance <= 1:
            raise ValueError(f"reset_chance: expected a probability, got {self.reset_chance}")
        for name in ("reset_every", "rewritten"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected at least 0 segments, got {getattr(self, name)}")
        if self.reset_chance and self.rewritten:
            raise ValueError("reset_chance: a memory that is written anew before each step has nothing to reset")


@dataclass(frozen=True)
class LanguageModellingConfig(TaskConfig):
    """Predict the next token of a text that is cut into segments.

    `carry_state` keeps every column's memory from segment to segment until the epoch ends; otherwise each segment
    starts with an empty memory.
    """

    model: LanguageModelConfig
    text: str = ""
    """Digest of the text and of the way it is split."""
    segment_length: int = 256
    carry_state: bool = False
    shuffle: bool = False
    start: str = ""
    """Digest of the weights that training begins with; empty for fresh ones."""
    carrying: Carrying = Carrying()
    test_stride: int = field(default=64, compare=False)
    """How far the window moves when a finished model is measured; 1 in the paper, more where a few cores do it."""

    needs_data: ClassVar[str] = "a language model needs the text that it is trained on"
    moved: ClassVar[Mapping[str, str]] = {
        "model": "task.model",
        "text": "task.text",
        **{f"training.{name}": f"task.{name}" for name in ("segment_length", "carry_state", "shuffle")},
        **{f"training.{field.name}": f"training.{field.name}" for field in fields(TrainingConfig)},
    }

    def __post_init__(self) -> None:
        require_at_least(1, self, "segment_length")
        if self.carry_state and self.shuffle:
            raise ValueError(
                "shuffle: with carry_state each segment has to continue the one before; choose one of them"
            )
        if self.carrying != Carrying() and not self.carry_state:
            raise ValueError("carrying: without carry_state no memory is carried; possible: carry_state=true")
        if self.carrying.published_gradient and not is_published_sum(self.model.attention):
            raise ValueError("published_gradient: it is that of the sum rule with attention normalisation")

    @override
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        from fastweights.data.text.corpus import open_corpus
        from fastweights.experiments.language_models.task import LanguageModelTask

        data = self.given(data)
        if self.start:
            raise ValueError("start: this run continues with the weights of another; use `fastweights train --from`")
        return LanguageModelTask(self, training, open_corpus(data), data)

    @override
    def empty_model(self) -> nn.Module:
        return LanguageModel(self.model)

    @property
    def validation(self) -> Context:
        """How the model is validated while it trains: cheaply, and with the context it is trained with."""
        length = self.segment_length
        return CarriedState(length) if self.carry_state else IndependentSegments(length)

    @property
    def measurement(self) -> Context:
        """How a table measures the trained model."""
        length = self.segment_length
        return CarriedState(length) if self.carry_state else SlidingWindow(length, min(self.test_stride, length))

    @override
    def check_result(self, result: Json) -> None:
        for score in (result[split] for split in ("valid", "test") if split in result):
            if not isinstance(score, dict) or not is_number(score.get("loss", "missing")):
                raise ValueError("'result' has no losses of valid and test")
        spans = result.get("reach", {})
        if not isinstance(spans, dict) or not all(key.isdecimal() and is_number(spans[key]) for key in spans):
            raise ValueError("'reach' is not a table of words and losses")

    @override
    def is_measured(self, result: Json) -> bool:
        return "valid" in result and "test" in result


def is_published_sum(attention: AttentionConfig) -> bool:
    """True for the sum rule divided by z·q, the one whose published gradient is incomplete (Eqs. 17-19)."""
    return (
        isinstance(attention, FastWeightAttentionConfig)
        and isinstance(attention.update_rule, SumRule)
        and attention.attention_normalisation is not None
    )


CONFIG = LanguageModellingConfig
