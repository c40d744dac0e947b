"""Language models that never see a word twice: do the claims hold there that do not hold on WikiText-2?"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from statistics import fmean

from fastweights.experiments.language_models.budget_curves import crossings, curves, curves_figure
from fastweights.experiments.language_models.budget_positions import by_distance, by_position
from fastweights.experiments.language_models.claims import CLAIMS, theirs
from fastweights.experiments.language_models.perplexities import Perplexities, measured, perplexities, shown
from fastweights.experiments.language_models.presets import PRESETS, is_unchanged, model_of, size_of, with_usual_seed
from fastweights.experiments.language_models.tables import CPU_SIZES, Drawing, Table, on_text
from fastweights.experiments.model_scores import over_seeds, signed_over_seeds
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.runs.display import duration
from fastweights.runs.record import Record
from fastweights.training.run import Run

SIZE = "cpu-long"
TITLE = "Budget: language models that never see a word twice"
TEXT = (
    "Debates of the European Parliament: every model reads the same 15 million words of them once, in the same order. "
    "Truncated models are measured with a sliding window, the others with their memory carried over the whole text. "
    "The claims of the paper are judged beside those on WikiText-2; ± is the standard deviation over seeds."
)
ARGUMENTS = " --data europarl-en --jobs 2"
SEEDS = (1111, 1, 2)
"""The first is that of the other tables; the others are run for the models that decide a claim."""
MODELS = {
    "transformer": "Transformer",
    "linear-delta": "Linear, delta rule",
    "linear-delta-nopos": "Linear, delta rule, no positions",
    "linear-delta-nopos-carried": "Linear, delta rule, no positions, carried",
    "linear-sum": "Linear, sum rule",
    "linear-sum-nopos-carried": "Linear, sum rule, no positions, carried",
    "transformer-xl": "Transformer-XL",
    "linear-gated-centred-nopos-carried": "Linear, gated delta rule, centred L2, carried",
    "linear-sum-nopos": "Linear, sum rule, no positions",
    "transformer-relative": "Transformer-XL, truncated",
    "linear-gated-centred-nopos": "Linear, gated delta rule, centred L2",
    "transformer-nopos": "Transformer, no positions",
    "linear-sum-nopos-carried-published": "Linear, sum rule, no positions, carried, published gradient",
    "linear-delta-centred-nopos": "Linear, delta rule, centred L2",
    "linear-delta-centred-nopos-carried": "Linear, delta rule, centred L2, carried",
    "linear-gated-nopos": "Linear, gated delta rule",
    "linear-gated-nopos-carried": "Linear, gated delta rule, carried",
    "dpfp-delta": "DPFP-1, delta rule",
    "dpfp-delta-nopos": "DPFP-1, delta rule, no positions",
    "dpfp-delta-nopos-carried": "DPFP-1, delta rule, no positions, carried",
    "linear-delta-l2-nopos": "Linear, delta rule, L2",
    "linear-delta-l2-nopos-carried": "Linear, delta rule, L2, carried",
    "linear-delta-step-nopos": "Linear, delta rule, NLMS step",
    "linear-delta-step-nopos-carried": "Linear, delta rule, NLMS step, carried",
}
"""What a model is called, in the order of the runs: those that decide a claim first."""
DECIDING = tuple(MODELS)[:8]
SOFTMAX = ("transformer-relative", "transformer-xl")
"""Transformer-XL, truncated and carried: what a memory of fixed size is compared with."""
COMMON_RATE = PRESETS[f"{SIZE}-transformer"].training.learning_rate
OTHER_RATES: dict[str, float] = {"transformer": 1e-3, "linear-delta": 1e-3}
"""A second rate for the models whose rates were swept (`rates`), that of WikiText-2: the sweep chose the common one."""


def runs(options: ReproduceOptions) -> list[Run]:
    """All models, the deciding ones with further seeds, and those that are trained with another rate as well."""
    if options.quick or options.scale != "cpu":
        raise ValueError("--quick is for figures, and --scale paper for Tables 1 to 5; this table has one size")
    prepared = dict(zip(MODELS, on_text([f"{SIZE}-{name}" for name in MODELS], options), strict=True))
    grid = [(name, seed) for seed in options.seeds or SEEDS for name in (MODELS if seed == SEEDS[0] else DECIDING)]
    found = [replace(prepared[name], training=replace(prepared[name].training, seed=seed)) for name, seed in grid]
    return found + [with_rate(prepared[name], rate) for name, rate in OTHER_RATES.items()]


def with_rate(run: Run, rate: float) -> Run:
    """The run with another learning rate."""
    return replace(run, training=replace(run.training, learning_rate=rate))


def coverage(records: Records) -> Coverage:
    """How many of the runs have a record."""
    found = list(chain.from_iterable(seeds.values() for seeds in gathered(records).values()))
    return Coverage(found, len(MODELS) + (len(SEEDS) - 1) * len(DECIDING) + len(OTHER_RATES))


def gathered(records: Records) -> dict[tuple[str, float], dict[int, Record]]:
    """The records by seed of each model and learning rate, in the order of the table."""
    found: dict[tuple[str, float], dict[int, Record]] = {}
    for run, record in records.items():
        if size_of(run) != SIZE or model_of(run) not in MODELS or not run.task.is_measured(record.result):
            continue
        name, rate = model_of(run), run.training.learning_rate
        usual = PRESETS[run.preset].training.learning_rate
        if rate in (usual, OTHER_RATES.get(name)) and is_unchanged(with_usual_seed(with_rate(run, usual))):
            found.setdefault((name, rate), {})[run.training.seed] = record
    order = list(MODELS)
    return {key: found[key] for key in sorted(found, key=lambda key: (order.index(key[0]), key[1]))}


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """Learning curves; perplexities and what they cost, verdicts by text, curves in words, perplexities by position."""
    first = {label_of(name, rate): next(iter(seeds.values())) for (name, rate), seeds in gathered(records).items()}
    return (
        *((curves_figure(records),) if curves(records, SIZE) else ()),
        perplexity_table(records),
        verdicts(perplexities(records)),
        crossings(records),
        by_position(first),
        by_distance(first),
    )


def label_of(name: str, rate: float) -> str:
    """What a model is called, with its learning rate if that is not the common one."""
    return MODELS[name] if rate == COMMON_RATE else f"{MODELS[name]}, learning rate {rate:g}"


def perplexity_table(records: Records) -> Table:
    """Every model beside Transformer-XL: parameters, perplexities, the gaps in per cent, and the time that it took."""
    found, rows = gathered(records), []
    references = [found.get((name, COMMON_RATE), {}) for name in SOFTMAX]
    for (name, rate), seeds in found.items():
        reached = [measured(record) for record in seeds.values()]
        rows.append(
            (
                MODELS[name],
                f"{rate:g}",
                f"{next(iter(seeds.values())).result['parameters']:,}",
                over_seeds([one.valid for one in reached], shown),
                over_seeds([one.test for one in reached], shown),
                *(gap(seeds, reference) for reference in references),
                mean_duration(seeds.values()),
                str(len(seeds)),
            )
        )
    columns = (
        "model", "learning rate", "parameters", "valid", "test", "test against Transformer-XL, truncated",
        "test against Transformer-XL", "core time of a run", "seeds",
    )  # fmt: skip
    words = f"{budget_of(SIZE):,}"
    return Table("budget", f"Perplexity per word of Europarl after {words} words of training.", columns, tuple(rows))


def gap(seeds: Mapping[int, Record], reference: Mapping[int, Record]) -> str:
    """By how many per cent the test perplexity is above that of a reference, over the seeds that both have."""
    pairs = [(measured(seeds[seed]), measured(reference[seed])) for seed in seeds if seed in reference]
    gaps = [100 * (one.test / other.test - 1) for one, other in pairs]
    return f"{signed_over_seeds(gaps)} %" if gaps else "–"


def budget_of(size: str) -> int:
    """Words that each of the models of a size reads in training."""
    run = PRESETS[f"{size}-transformer"]
    return run.training.steps * run.training.batch_size * run.task.segment_length  # type: ignore[attr-defined]


def mean_duration(records: Iterable[Record]) -> str:
    """The mean time of some runs on cores of their own, as far as their records tell."""
    times = [float(record.result["core_seconds"]) for record in records if record.result.get("core_seconds")]
    return duration(fmean(times)) if times else "–"


def verdicts(ours: Perplexities) -> Table:
    """Each claim about language models, judged for every text and budget by itself."""
    sizes = [size for size in CPU_SIZES if size in ours.found]
    rows = []
    for claim in CLAIMS:
        judged = [claim.judge(Perplexities({size: ours.found[size]})) for size in sizes]
        cells = [f"{finding.verdict}: {finding.evidence}" for finding in judged]
        rows.append((claim.says, claim.judge(theirs()).verdict, *cells))
    columns = (
        "what the paper says",
        "the paper's own numbers",
        *(f"{CPU_SIZES[size]}, {budget_of(size):,} words" for size in sizes),
    )
    caption = "The same rules as in the table of claims, for one text and one budget at a time."
    return Table("claims-by-budget", caption, columns, tuple(rows) if sizes else (), wide=True)
