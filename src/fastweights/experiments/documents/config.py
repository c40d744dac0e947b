"""Translating documents as a value: everything about the task that decides the numbers of a run."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from fastweights.config import require_at_least
from fastweights.evaluation.bootstrap import check_statistics
from fastweights.experiments.sentence_pairs import SentencePairsConfig
from fastweights.files import Json
from fastweights.runs.record import is_number
from fastweights.training.config import TrainingConfig
from fastweights.training.task import Task

if TYPE_CHECKING:
    from fastweights.data.translation import TranslationCorpus


@dataclass(frozen=True)
class DocumentsConfig(SentencePairsConfig):
    """Translate sentences in the order of their documents; `training.batch_size` counts documents side by side.

    The pairs of the corpus are taken to stand in order, and every `document` of them to belong together. If `carried`,
    the memories of the decoder's self-attention go on through a document; otherwise every sentence begins with none.
    Pairs with a side of more than `longest` tokens are left out.
    """

    carried: bool = True
    document: int = 32
    longest: int = 128

    threads: ClassVar[int | None] = 1
    needs_data: ClassVar[str] = (
        "documents need a folder of sentence pairs in order, such as `python -m fastweights.data.ordered_pairs` writes"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, self, "document")

    @override
    def task_of(self, training: TrainingConfig, corpus: "TranslationCorpus", data: str) -> Task[Any]:
        from fastweights.experiments.documents.task import DocumentsTask

        return DocumentsTask(self, training, corpus, data)

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
