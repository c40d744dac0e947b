"""How runs ended, ours and the published ones in one form, so that one rule judges both."""

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Outcome:
    """The end of one run: which model on which problem, and the losses it reached."""

    setting: str
    model: str
    rule: str
    num_keys: int
    seed: int
    best: float
    """Smallest evaluation loss; not-a-number if none was finite."""
    last: float
    steps: int
    stopped_because: str = ""
    key_dim: int = 64
    finite: bool = True
    """Whether every evaluation gave a number."""
    best_by_text: float = math.nan
    """The smallest loss of the evaluation that the paper's text describes: all queries, on sequences as in training."""
    curve: tuple[tuple[int, float], ...] = ()
    """(step, loss) of the evaluations that are kept."""


@dataclass(frozen=True)
class Outcomes:
    """A set of outcomes that can be narrowed down."""

    all: tuple[Outcome, ...]

    def where(
        self,
        setting: str | None = None,
        model: str | None = None,
        rule: str | None = None,
        num_keys: int | None = None,
    ) -> "Outcomes":
        """Those outcomes that agree with everything that is given."""
        wanted = {"setting": setting, "model": model, "rule": rule, "num_keys": num_keys}
        return Outcomes(
            tuple(
                outcome
                for outcome in self.all
                if all(value is None or getattr(outcome, name) == value for name, value in wanted.items())
            )
        )

    def sizes(self) -> list[int]:
        """The values of S there are."""
        return sorted({outcome.num_keys for outcome in self.all})

    def on(self, sizes: Iterable[int]) -> "Outcomes":
        """Those outcomes whose S is among the given ones."""
        wanted = set(sizes)
        return Outcomes(tuple(outcome for outcome in self.all if outcome.num_keys in wanted))

    def best(self, num_keys: int) -> float:
        """The median over seeds of the best loss at S; not-a-number if there is no run."""
        return median([outcome.best for outcome in self.all if outcome.num_keys == num_keys])

    def largest_solved(self, loss: float) -> int | None:
        """The largest S whose best loss is at most `loss`."""
        return max((size for size in self.sizes() if self.best(size) <= loss), default=None)

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.all)

    def __bool__(self) -> bool:
        return bool(self.all)


def median(values: list[float]) -> float:
    """The middle value; anything that is not a number counts as infinitely bad."""
    if not values:
        return math.nan
    ordered = sorted(math.inf if math.isnan(value) else value for value in values)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return math.nan if math.isinf(middle) else middle


@cache
def published() -> Outcomes:
    """The runs that the authors published; the source is named at the top of the file."""
    text = (files("fastweights.reporting") / "published_runs.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return Outcomes(
        tuple(
            Outcome(
                setting=row["setting"],
                model=row["model"],
                rule=row["rule"],
                num_keys=int(row["num_keys"]),
                seed=1,
                best=float(row["best_loss"]),
                last=float(row["last_loss"]),
                steps=int(row["steps"]),
                finite=int(row["not_finite"]) == 0,
            )
            for row in rows
        )
    )
