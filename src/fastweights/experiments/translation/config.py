"""Translation as a value: everything about the task that decides the numbers of a run (Sec. 6.2, App. D)."""

from dataclasses import dataclass, field
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
class TranslationConfig(SentencePairsConfig):
    """Translate sentences; `training.batch_size` counts the tokens that a batch may have, padding included.

    Pairs with a side of more than `longest` tokens are left out of training. The best step is the one with the highest
    BLEU of greedy translations of the validation pairs, as in the paper.
    """

    joined: int = 1
    """Sentences after each other that are translated as one."""
    corpus: str = field(default="", compare=False)
    """What the pairs are called in tables."""
    beams: int = field(default=4, compare=False)
    """Hypotheses of the beam search when a finished model is measured."""
    length_penalty: float = field(default=0.6, compare=False)

    needs_data: ClassVar[str] = "a translator needs the pairs that it is trained on"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, self, "joined", "beams")

    @override
    def task_of(self, training: TrainingConfig, corpus: "TranslationCorpus", data: str) -> Task[Any]:
        from fastweights.experiments.translation.task import TranslationTask

        return TranslationTask(self, training, corpus, data)

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
