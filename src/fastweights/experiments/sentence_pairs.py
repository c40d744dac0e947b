"""What all translators are trained on, as a value: pairs of sentences in two languages with one tokeniser."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn
from typing_extensions import override

from fastweights.data.translation_files import Languages
from fastweights.models.translator import Translator, TranslatorConfig
from fastweights.training.config import TrainingConfig
from fastweights.training.task import Task, TaskConfig

if TYPE_CHECKING:
    from fastweights.data.translation import TranslationCorpus


@dataclass(frozen=True)
class SentencePairsConfig(TaskConfig):
    """Translate from `source` into `target`; pairs with a side of more than `longest` tokens are left out."""

    model: TranslatorConfig
    pairs: str = ""
    """Digest of the pairs, their languages and the tokeniser."""
    source: str = "en"
    target: str = "de"
    smoothing: float = 0.1
    longest: int = 256

    def __post_init__(self) -> None:
        Languages(self.source, self.target)
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing: expected a share below 1, got {self.smoothing}")
        if self.longest < 2:
            raise ValueError(f"longest: expected at least 2 tokens, got {self.longest}")

    @property
    def languages(self) -> Languages:
        """What is translated into what."""
        return Languages(self.source, self.target)

    @override
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        from fastweights.data.translation import open_translation
        from fastweights.data.translation_tokeniser import JointBytePairs

        data = self.given(data)
        corpus = open_translation(data, self.languages, JointBytePairs(self.model.vocabulary_size))
        return self.task_of(training, corpus, data)

    @abstractmethod
    def task_of(self, training: TrainingConfig, corpus: "TranslationCorpus", data: str) -> Task[Any]:
        """The task on these pairs, which were read from `data`."""

    @override
    def empty_model(self) -> nn.Module:
        return Translator(self.model)
