"""BLEU of translators, ours and the paper's: what Table 1 shows and what its claims are judged by."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastweights.data.translation_files import VALID
from fastweights.evaluation.bootstrap import Comparison, Statistics, compare_statistics
from fastweights.experiments.model_scores import ModelScores
from fastweights.experiments.records import Records
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.experiments.translation.presets import followed_preset
from fastweights.files import Json
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.training.run import Run


@dataclass(frozen=True)
class Scores:
    """One model on the validation pairs and on the first test set: BLEU of every seed, and what else is known."""

    valid: tuple[float, ...]
    test: tuple[float, ...]
    brevity: tuple[float, ...] = ()
    """Brevity penalties on the test set."""
    valid_statistics: tuple[Statistics, ...] = ()
    test_statistics: tuple[Statistics, ...] = ()
    signature: str = ""

    def of(self, split: str) -> tuple[float, ...]:
        """BLEU of every seed on `valid` or `test`."""
        return self.valid if split == "valid" else self.test

    def statistics(self, split: str) -> tuple[Statistics, ...]:
        """What the paired bootstrap needs; none of the paper's models has it."""
        return self.valid_statistics if split == "valid" else self.test_statistics


Corpora = ModelScores[Scores]
"""By corpus and model."""


def compare(better: Scores, worse: Scores, split: str) -> Comparison | None:
    """The paired bootstrap of two models over all their seeds; None without statistics."""
    first, second = worse.statistics(split), better.statistics(split)
    return compare_statistics(first, second) if first and second else None


def scores(records: Records) -> Corpora:
    """What the models of the table reached, by corpus and by the name of the model without its size."""
    gathered: dict[str, dict[str, list[tuple[int, Json]]]] = {}
    for run, record in records.items():
        if followed_preset(run) is not None and run.task.is_measured(record.result):
            results = gathered.setdefault(corpus_of(run), {}).setdefault(model_of(run), [])
            results.append((run.training.seed, record.result["scores"]))
    return Corpora(
        {
            corpus: {
                model: _scores_of([found for _, found in sorted(results, key=lambda result: result[0])])
                for model, results in models.items()
            }
            for corpus, models in gathered.items()
        }
    )


def corpus_of(run: Run) -> str:
    """What may stand in one column: the same pairs, and the same number of updates."""
    assert isinstance(run.task, TranslationConfig)
    return f"{run.task.corpus} {run.task.languages}, {run.training.steps:,} updates"


def model_of(run: Run) -> str:
    """A model's name at every size: that of its preset, the Performer with its d_dot as a multiple of d_key."""
    assert isinstance(run.task, TranslationConfig)
    preset, config = followed_preset(run), run.task.model
    assert preset is not None
    name = preset.split("-", 2)[2]
    if not name.startswith("performer"):
        return name
    attention, key_dim = config.encoder_attention, config.model_dim // config.num_heads
    assert isinstance(attention, FastWeightAttentionConfig)
    return f"performer-x{attention.feature_map.feature_dim(key_dim) // key_dim}"


def _scores_of(results: Sequence[Json]) -> Scores:
    valid = [result[VALID] for result in results]
    test = [next(score for split, score in result.items() if split != VALID) for result in results]
    return Scores(
        valid=tuple(score["bleu"] for score in valid),
        test=tuple(score["bleu"] for score in test),
        brevity=tuple(score["brevity_penalty"] for score in test),
        valid_statistics=tuple(score["statistics"] for score in valid),
        test_statistics=tuple(score["statistics"] for score in test),
        signature=test[0]["signature"],
    )


PAPER_CORPUS = "WMT14 en-de"
PAPER = Corpora(
    {
        PAPER_CORPUS: {
            "standard": Scores((26.6,), (27.7,)),
            "linear": Scores((25.5,), (26.8,)),
            "performer-x1": Scores((24.2,), (24.4,)),
            "performer-x4": Scores((24.9,), (25.3,)),
            "performer-x8": Scores((26.7,), (27.7,)),
            "dpfp2": Scores((26.2,), (26.9,)),
            "dpfp4": Scores((26.2,), (27.1,)),
        }
    }
)
"""Table 1 of the paper: newstest2013 and newstest2014."""
