"""What several models reached, ours and the paper's in one form, so that one rule judges both; and seeds in words."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Score = TypeVar("Score")
"""What is known of one model, such as its perplexities."""


@dataclass(frozen=True)
class ModelScores(Generic[Score]):
    """Models of several corpora or sizes: `found[corpus or size][model]`."""

    found: Mapping[str, Mapping[str, Score]] = field(default_factory=dict)

    def get(self, where: str, model: str) -> Score | None:
        """One of them, if it is known."""
        return self.found.get(where, {}).get(model)

    def with_all(self, *models: str) -> Iterator[tuple[str, tuple[Score, ...]]]:
        """Every corpus or size for which all the models are known, and what they reached."""
        for where, known in self.found.items():
            if all(model in known for model in models):
                yield where, tuple(known[model] for model in models)


def over_seeds(values: Sequence[float], shown: Callable[[float], str] = "{:.1f}".format) -> str:
    """The mean over seeds, and their standard deviation where there are several; a dash without any."""
    if not values:
        return "–"
    mean = shown(statistics.fmean(values))
    return mean if len(values) < 2 else f"{mean} ± {shown(statistics.stdev(values))}"


def signed_over_seeds(values: Sequence[float]) -> str:
    """The mean over seeds with its sign, and their standard deviation, which has none."""
    return over_seeds(values, "{:+.1f}".format).replace("± +", "± ")
