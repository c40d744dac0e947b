"""Numbers of short trials with one seed, and what became of them at full budget and over seeds."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastweights.experiments.growth.positions import positions
from fastweights.experiments.images.presets import scores as label_scores
from fastweights.experiments.language_models.perplexities import pairs_of_seeds, perplexities
from fastweights.experiments.language_models.presets import is_unchanged, with_usual_seed
from fastweights.experiments.recall.grids import binding_scores
from fastweights.experiments.records import Records

Values = Sequence[float]
SEEDS = 3
COLUMNS = ("what", "memory", "trial, one seed", "our runs", "seeds", "verdict")


@dataclass(frozen=True)
class Kind:
    """A quantity that was tried: how it is shown, how near counts as the same, and where records have it, by memory."""

    what: str
    shown: str
    near: float
    """As a share of the trial's number, or as a difference if `absolute`."""
    of: Callable[[Records, str], Values]
    absolute: bool = True

    def text(self, value: float) -> str:
        """The number as the table has it."""
        return self.shown.format(value)

    def verdict(self, trial: float, ours: Values) -> str:
        """Whether the mean is near the trial's number, above or below it; not before all seeds are there."""
        if not ours:
            return "not run yet"
        difference = statistics.fmean(ours) - trial
        allowed = self.near if self.absolute else self.near * abs(trial)
        word = "as in the trial" if abs(difference) <= allowed else "higher" if difference > 0 else "lower"
        return word if len(ours) >= SEEDS else f"{word}, so far"


def labels(test: str) -> Callable[[Records, str], Values]:
    """Right labels of pictures in per cent."""
    return lambda records, model: [100 * x for x in label_scores(records).of((model,), test)]


def rebound(records: Records, model: str) -> Values:
    """Right values of variables at four times the trained length, in per cent."""
    return [100 * x for x in binding_scores(records).of(("rebinding", model), "x4")]


def perplexity(end: str) -> Callable[[Records, str], Values]:
    """Test perplexities of language models with ELU+1 and without positions."""

    def of(records: Records, way: str) -> Values:
        found = perplexities(records).get("cpu", f"linear-{way}-nopos{end}")
        return [one.test for one in found.by_seed.values()] if found else []

    return of


def against_paper(records: Records, way: str) -> Values:
    """By how much a model's perplexity differs from that of sum normalisation with the same seed, in per cent."""
    found = perplexities(records)
    model, paper = (found.get("cpu", f"linear-{name}-nopos") for name in (way, "delta"))
    pairs = pairs_of_seeds(model, paper) if model and paper else []
    return [100 * (one.valid / other.valid - 1) for one, other in pairs]


def drift(records: Records, way: str) -> Values:
    """How much worse a carried memory is than one that is reset every 256 words, in per cent."""
    return [100 * one.drift for one in positions(records) if one.preset == f"cpu-linear-{way}-nopos"]


def landing(records: Records, way: str) -> Values:
    """By how much of what Eq. 22 asks a write moves the memory, in per cent."""
    preset = f"cpu-linear-{way}-nopos"
    found = [made for run, made in records.items() if run.preset == preset and is_unchanged(with_usual_seed(run))]
    landings = [made.result.get("writes", {}).get("landing") for made in found]
    return [100 * x for x in landings if x is not None]


TRIALS: tuple[tuple[Kind, dict[str, float]], ...] = (
    (
        Kind("λ of a language model's writes after 128 words, %", "{:.3g}", 0.2, landing, absolute=False),
        {"delta": 12.5, "delta-attnnorm": 0.25, "delta-l2": 100.0, "delta-centred": 100.0, "delta-step": 100.0},
    ),
    (
        Kind("valid perplexity against sum normalisation alone, truncated, %", "{:+.1f}", 3.0, against_paper),
        {"sum": 13.5, "delta-attnnorm": 7.9, "delta-step": -4.9, "delta-l2": -6.1, "delta-centred": -6.3},
    ),
    (
        Kind("test perplexity, truncated", "{:.1f}", 0.02, perplexity(""), absolute=False),
        {"delta": 190.6, "delta-centred": 184.7},
    ),
    (
        Kind("test perplexity, carried", "{:.1f}", 0.02, perplexity("-carried"), absolute=False),
        {"delta": 226.8, "delta-l2": 202.2, "delta-centred": 186.3},
    ),
    (
        Kind("carried over 10⁵ words against emptied every 256, trained with neither, %", "{:+.1f}", 3.0, drift),
        {"delta": 18.0, "delta-step": 9.5, "delta-l2": 5.3, "delta-centred": 0.4},
    ),
    (
        Kind("labels that change, %", "{:.1f}", 5.0, labels("x1")),
        {"sum": 70.8, "delta": 71.3, "delta-l2": 90.0, "delta-centred": 95.1},
    ),
    (
        Kind("labels that change, 4 × as long, %", "{:.1f}", 5.0, labels("x4")),
        {"sum": 56.0, "delta": 72.7, "delta-l2": 89.2, "delta-centred": 94.9},
    ),
    (
        Kind("rebinding, 4 × as long, %", "{:.1f}", 5.0, rebound),
        {"softmax": 76.7, "sum": 63.3, "delta-attention": 73.8, "delta": 99.8, "delta-l2": 100.0},
    ),
)
"""The numbers of trials, by the name that a memory has there."""

SHOWN = {
    "softmax": "softmax attention",
    "sum": "sum rule",
    "delta": "delta, sum (the paper)",
    "delta-attention": "delta, attention",
    "delta-attnnorm": "delta, sum and attention",
    "delta-l2": "delta, L2",
    "delta-centred": "delta, centred L2",
    "delta-step": "NLMS, sum",
}


def trial_rows(records: Records) -> tuple[tuple[str, ...], ...]:
    """Every number of a trial beside ours, with the verdict on it."""
    rows = []
    for kind, numbers in TRIALS:
        for name, trial in numbers.items():
            ours = kind.of(records, name)
            spread = f" ± {kind.text(statistics.stdev(ours)).lstrip('+')}" if len(ours) > 1 else ""
            shown = f"{kind.text(statistics.fmean(ours))}{spread}" if ours else "–"
            verdict = kind.verdict(trial, ours)
            rows.append((kind.what, SHOWN[name], kind.text(trial), shown, str(len(ours)), verdict))
    return tuple(rows)
