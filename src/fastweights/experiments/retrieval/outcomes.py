"""How runs ended, ours and the published ones in one form, so that one rule judges both."""

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fastweights.experiments.records import Records
from fastweights.experiments.retrieval.config import RetrievalConfig
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.names import model_and_rule
from fastweights.experiments.retrieval.presets import preset
from fastweights.runs.record import Record
from fastweights.training.run import Run

SOLVED = 0.001
"""The loss at which training stops."""
NEARLY_SOLVED = 0.01


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
    """True if every evaluation gave a finite loss."""
    best_by_text: float = math.nan
    """The smallest loss of the evaluation that the paper's text describes: all queries, on sequences as in training."""
    curve: tuple[tuple[int, float], ...] = ()
    """(step, loss) of the evaluations that are kept."""


@dataclass(frozen=True)
class Outcomes:
    """A set of outcomes that can be narrowed down."""

    all: tuple[Outcome, ...]

    def where(
        self, setting: str | None = None, model: str | None = None, rule: str | None = None, num_keys: int | None = None
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


def outcomes(records: Records) -> Outcomes:
    """How the runs of the paper's figures ended; runs that differ from those in anything are left out."""
    found = []
    for run, record in records.items():
        if isinstance(run.task, RetrievalConfig) and (names := model_and_rule(run.task.attention)) is not None:
            config = run.task
            if run == preset(config.setting, *names, config.num_keys, run.training.seed, AS_PUBLISHED):
                found.append(outcome(run, record, *names))
    return Outcomes(tuple(sorted(found, key=lambda o: (o.setting, o.model, o.rule, o.num_keys, o.seed))))


def outcome(run: Run, record: Record, model: str, rule: str) -> Outcome:
    """The end and the curve of one run, from its record."""
    assert isinstance(run.task, RetrievalConfig)
    result, curve = record.result, record.curve
    losses = list(zip(curve.get("step", []), curve.get("loss", []), strict=True))
    return Outcome(
        setting=run.task.setting,
        model=model,
        rule=rule,
        num_keys=run.task.num_keys,
        seed=run.training.seed,
        best=number_or_nan(result["best_loss"]),
        last=number_or_nan(result["last_loss"]),
        steps=result["steps"],
        key_dim=run.task.key_dim,
        stopped_because=str(result.get("stopped_because", "")),
        finite=all(loss is not None for _, loss in losses),
        best_by_text=number_or_nan(result["protocols"]["text"]["best_loss"]),
        curve=tuple((int(step or 0), number_or_nan(loss)) for step, loss in losses),
    )


def number_or_nan(value: float | None) -> float:
    """A loss of a record, where null stands for one that was not finite."""
    return math.nan if value is None else value


@cache
def published() -> Outcomes:
    """The runs that the authors published; the source is named at the top of the file."""
    text = (files("fastweights.experiments.retrieval") / "published_runs.csv").read_text(encoding="utf-8")
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
