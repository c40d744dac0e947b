"""Translating documents as a value: everything about the task that decides the numbers of a run."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn
from typing_extensions import override

from fastweights.config import require_at_least
from fastweights.data.translation_files import Languages
from fastweights.evaluation.bootstrap import check_statistics
from fastweights.files import Json
from fastweights.models.translator import Translator, TranslatorConfig
from fastweights.runs.record import is_number
from fastweights.training.config import TrainingConfig
from fastweights.training.task import Task, TaskConfig


@dataclass(frozen=True)
class DocumentsConfig(TaskConfig):
    """Translate sentences in the order of their documents; `training.batch_size` counts documents side by side.

    The pairs of the corpus are taken to stand in order, and every `document` of them to belong together. If `carried`,
    the memories of the decoder's self-attention go on through a document; otherwise every sentence begins with none.
    Pairs with a side of more than `longest` tokens are left out.
    """

    model: TranslatorConfig
    pairs: str = ""
    """Digest of the pairs, their languages and the tokeniser."""
    carried: bool = True
    document: int = 32
    source: str = "en"
    target: str = "de"
    smoothing: float = 0.1
    longest: int = 128

    threads: ClassVar[int | None] = 1
    needs_data: ClassVar[str] = (
        "documents need a folder of sentence pairs in order, such as `python -m fastweights.data.ordered_pairs` writes"
    )

    def __post_init__(self) -> None:
        Languages(self.source, self.target)
        require_at_least(1, self, "document")
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
        from fastweights.experiments.documents.task import DocumentsTask

        data = self.given(data)
        corpus = open_translation(data, self.languages, JointBytePairs(self.model.vocabulary_size))
        return DocumentsTask(self, training, corpus, data)

    @override
    def empty_model(self) -> nn.Module:
        return Translator(self.model)

    @override
    def check_result(self, result: Json) -> None:
        splits = result.get("readings", {})
        if not isinstance(splits, dict) or not all(isinstance(found, dict) and found for found in splits.values()):
            raise ValueError("'readings' is not a table of texts and of ways to read them")
        for split, reading, found in ((s, r, found) for s, readings in splits.items() for r, found in readings.items()):
            columns = [found.get(name) for name in ("sums", "tokens")] if isinstance(found, dict) else []
            lists = [column for column in columns if isinstance(column, list) and all(map(is_number, column))]
            if len(lists) < 2 or len(lists[0]) != len(lists[1]):
                raise ValueError(f"'readings' has no losses by place of {split}, {reading}")
            for number in ("loss", "bleu"):
                if not is_number(found.get(number, "missing")):
                    raise ValueError(f"'readings' has no {number} of {split}, {reading}")
            check_statistics(found.get("statistics"), split)

    @override
    def is_measured(self, result: Json) -> bool:
        return bool(result.get("readings"))


CONFIG = DocumentsConfig
