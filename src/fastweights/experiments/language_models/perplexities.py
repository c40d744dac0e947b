"""Perplexities of language models by name, ours and the paper's in one form, so that one rule judges both."""

import math
from dataclasses import dataclass

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.language_models.presets import is_unchanged, model_of, size_of
from fastweights.experiments.model_scores import ModelScores
from fastweights.experiments.records import Records
from fastweights.runs.record import Record


@dataclass(frozen=True)
class Perplexity:
    """Of one model on the validation and the test text; not-a-number where its record has none."""

    valid: float
    test: float
    at_least: bool = False
    """True if the paper gives only this lower bound."""

    @classmethod
    def of_losses(cls, valid: float | None, test: float | None) -> "Perplexity":
        """exp of both losses; null stands for one that was not finite."""
        return cls(perplexity_of(valid), perplexity_of(test))

    def cells(self) -> tuple[str, str]:
        """Valid and test as text."""
        return shown(self.valid, self.at_least), shown(self.test, self.at_least)


def shown(perplexity: float, at_least: bool = False) -> str:
    """A perplexity with the digits that the paper gives."""
    if math.isinf(perplexity):
        return "infinite"
    return f"{'> ' if at_least else ''}{perplexity:.0f}" if perplexity >= 1000 else f"{perplexity:.1f}"


Perplexities = ModelScores[Perplexity]
"""By size and model."""


def perplexities(records: Records) -> Perplexities:
    """Perplexities of the models of the tables, by size and name."""
    found: dict[str, dict[str, Perplexity]] = {}
    for run, record in records.items():
        if is_unchanged(run) and run.task.is_measured(record.result):
            found.setdefault(size_of(run), {})[model_of(run)] = measured(record)
    return Perplexities(found)


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
