"""Translation as a value: everything about the task that decides the numbers of a run (Sec. 6.2, App. D)."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import nn
from typing_extensions import override

from fastweights.data.translation_files import Languages
from fastweights.evaluation.bootstrap import check_statistics
from fastweights.files import Json
from fastweights.models.translator import Translator, TranslatorConfig
from fastweights.runs.record import is_number
from fastweights.training.config import TrainingConfig
from fastweights.training.task import Task, TaskConfig


@dataclass(frozen=True)
class TranslationConfig(TaskConfig):
    """Translate sentences; `training.batch_size` counts the tokens that a batch may have, padding included.

    Pairs with a side of more than `longest` tokens are left out of training. The best step is the one with the highest
    BLEU of greedy translations of the validation pairs, as in the paper.
    """

    model: TranslatorConfig
    pairs: str = ""
    """Digest of the pairs, their languages and the tokeniser."""
    source: str = "en"
    target: str = "de"
    smoothing: float = 0.1
    longest: int = 256
    joined: int = 1
    """Sentences after each other that are translated as one."""
    corpus: str = field(default="", compare=False)
    """What the pairs are called in tables."""
    beams: int = field(default=4, compare=False)
    """Hypotheses of the beam search when a finished model is measured."""
    length_penalty: float = field(default=0.6, compare=False)

    needs_data: ClassVar[str] = "a translator needs the pairs that it is trained on"

    def __post_init__(self) -> None:
        Languages(self.source, self.target)
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing: expected a share below 1, got {self.smoothing}")
        if self.longest < 2:
            raise ValueError(f"longest: expected at least 2 tokens, got {self.longest}")
        if self.joined < 1:
            raise ValueError(f"joined: expected at least 1 sentence, got {self.joined}")
        if self.beams < 1:
            raise ValueError(f"beams: expected at least 1, got {self.beams}")

    @property
    def languages(self) -> Languages:
        """What is translated into what."""
        return Languages(self.source, self.target)

    @override
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        from fastweights.data.translation import open_translation
        from fastweights.data.translation_tokeniser import JointBytePairs
        from fastweights.experiments.translation.task import TranslationTask

        data = self.given(data)
        corpus = open_translation(data, self.languages, JointBytePairs(self.model.vocabulary_size))
        return TranslationTask(self, training, corpus, data)

    @override
    def empty_model(self) -> nn.Module:
        return Translator(self.model)

    @override
    def check_result(self, result: Json) -> None:
        scores = result.get("scores", {})
        if not isinstance(scores, dict):
            raise ValueError("'scores' is not a table of test sets")
        for split, score in scores.items():
            if not isinstance(score, dict) or not is_number(score.get("bleu", "missing")):
                raise ValueError(f"'result' has no BLEU of {split}")
            check_statistics(score.get("statistics"), split)

    @override
    def is_measured(self, result: Json) -> bool:
        return "scores" in result


CONFIG = TranslationConfig
