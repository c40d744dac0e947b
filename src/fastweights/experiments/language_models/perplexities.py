"""Perplexities of language models by name, ours and the paper's in one form, so that one rule judges both."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.language_models.presets import is_unchanged, model_of, size_of, with_usual_seed
from fastweights.experiments.model_scores import ModelScores, over_seeds
from fastweights.experiments.records import Records
from fastweights.runs.record import Record


@dataclass(frozen=True)
class Perplexity:
    """Of one model on the validation and the test text; not-a-number where its record has none."""

    valid: float
    test: float
    at_least: bool = False
    """True if the paper gives only this lower bound."""
    by_seed: "Mapping[int, Perplexity]" = field(default_factory=dict)
    """Of our runs, what each seed reached; valid and test are the means."""

    @classmethod
    def of_losses(cls, valid: float | None, test: float | None) -> "Perplexity":
        """exp of both losses; null stands for one that was not finite."""
        return cls(perplexity_of(valid), perplexity_of(test))

    def cells(self) -> tuple[str, str]:
        """Valid and test as text."""
        return self.in_words("valid"), self.in_words("test")

    def in_words(self, text: str) -> str:
        """The perplexity of one of the texts, with its standard deviation where there are several seeds."""
        if len(self.by_seed) > 1:
            return over_seeds([getattr(one, text) for one in self.by_seed.values()], shown)
        return shown(getattr(self, text), self.at_least)


def cells_of(models: Iterable[Perplexity | None]) -> list[str]:
    """Valid and test of each model as text; dashes for one that is not known."""
    return [cell for found in models for cell in (("–", "–") if found is None else found.cells())]


def shown(perplexity: float, at_least: bool = False) -> str:
    """A perplexity with the digits that the paper gives."""
    if math.isinf(perplexity):
        return "infinite"
    return f"{'> ' if at_least else ''}{perplexity:.0f}" if perplexity >= 1000 else f"{perplexity:.1f}"


Perplexities = ModelScores[Perplexity]
"""By size and model."""


ENOUGH_SEEDS, MARGIN = 3, 0.01
DIFFERS = (
    f"a difference counts if it is at least {MARGIN:.0%}, or the same way round in all of {ENOUGH_SEEDS} or more seeds"
)


def is_lower(first: Perplexity, second: Perplexity, text: str) -> bool | None:
    """Whether the first has the lower perplexity on a text; None if chance may explain the difference.

    Seeds that both have are compared one by one, means if there are none. Published numbers come without seeds and are
    taken as they stand.
    """
    if not (first.by_seed and second.by_seed):
        return bool(getattr(first, text) < getattr(second, text))
    pairs = pairs_of_seeds(first, second) or [(first, second)]
    one, other = (fmean(getattr(pair[side], text) for pair in pairs) for side in (0, 1))
    signs = {getattr(a, text) < getattr(b, text) for a, b in pairs}
    if abs(one - other) >= MARGIN * min(one, other) or (len(pairs) >= ENOUGH_SEEDS and len(signs) == 1):
        return one < other
    return None


def pairs_of_seeds(first: Perplexity, second: Perplexity) -> list[tuple[Perplexity, Perplexity]]:
    """What both models reached with the seeds that both were trained with."""
    return [(first.by_seed[seed], second.by_seed[seed]) for seed in first.by_seed if seed in second.by_seed]


def perplexities(records: Records) -> Perplexities:
    """Perplexities of the models of the tables, by size and name, over all seeds that were run."""
    found: dict[str, dict[str, dict[int, Perplexity]]] = {}
    for run, record in records.items():
        if is_unchanged(with_usual_seed(run)) and run.task.is_measured(record.result):
            found.setdefault(size_of(run), {}).setdefault(model_of(run), {})[run.training.seed] = measured(record)
    return Perplexities(
        {size: {model: of_seeds(seeds) for model, seeds in models.items()} for size, models in found.items()}
    )


def of_seeds(by_seed: Mapping[int, Perplexity]) -> Perplexity:
    """The means over seeds, and what each of them reached."""
    valid, test = (fmean(getattr(one, text) for one in by_seed.values()) for text in ("valid", "test"))
    return Perplexity(valid, test, by_seed=by_seed)


def measured(record: Record) -> Perplexity:
    """The perplexities of a measured model."""
    return Perplexity.of_losses(*(record.result[split]["loss"] for split in ("valid", "test")))


PAPER = Perplexities(
    {
        "small": {
            "transformer": Perplexity(33.0, 34.1),
            "linear-sum": Perplexity(37.1, 38.3),
            "linear-delta": Perplexity(34.1, 35.5),
            "performer-sum": Perplexity(39.0, 39.6),
            "performer-delta": Perplexity(36.1, 37.2),
            "performer-wide-sum": Perplexity(38.0, 38.8),
            "performer-wide-delta": Perplexity(36.0, 37.0),
            "dpfp-sum": Perplexity(37.7, 38.8),
            "dpfp-delta": Perplexity(33.9, 35.0),
        },
        "medium": {
            "transformer": Perplexity(27.9, 29.6),
            "linear-sum": Perplexity(31.1, 33.0),
            "linear-delta": Perplexity(29.7, 31.5),
            "performer-sum": Perplexity(32.2, 33.8),
            "performer-delta": Perplexity(30.0, 31.8),
            "linear-delta-attnnorm": Perplexity(30.4, 32.1),
            "linear-delta-attnnorm-nopos": Perplexity(29.2, 31.2),
            "linear-delta-nopos": Perplexity(28.1, 31.1),
            "linear-sum-nopos-carried": Perplexity(1600, 1600, at_least=True),
            "linear-delta-nopos-carried": Perplexity(27.8, 29.4),
            "transformer-xl": Perplexity(24.6, 25.5),
        },
    }
)
"""Tables 2-5 of the paper, WikiText-103."""
