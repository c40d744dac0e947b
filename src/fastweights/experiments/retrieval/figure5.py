"""Figure 5: overwriting at every size, by feature map and update rule (setting 2, App. C.2)."""

from collections.abc import Callable

from fastweights.experiments.retrieval.execute import PUBLISHED, RetrievalRun, preset
from fastweights.experiments.runs import Records, outcomes
from fastweights.reporting.claim import number
from fastweights.experiments.retrieval.overwriting_figure import figure5
from fastweights.experiments.retrieval.series import OVERWRITING
from fastweights.experiments.retrieval.outcomes import Outcome, Outcomes, median, published
from fastweights.reporting.report import Section, Table

SEEDS = (1,)
SIZES = tuple(range(20, 201, 20))
FULL = (("dpfp1", "delta"), ("dpfp1", "sum"), ("dpfp2", "delta"), ("dpfp2", "sum"), ("elu", "delta"), ("elu", "sum"))
SMALLER: dict[tuple[str, str], tuple[int, ...]] = {
    ("dpfp1", "schlag2021"): (20, 40, 60, 80, 100),
    ("tanh", "schlag2021"): (20, 40),
    ("favor64", "delta"): (20, 40, 60, 100, 140),
    ("favor64-stabilised", "delta"): (20, 40, 60, 100, 140),
}
"""What is run at some sizes only: Schlag (2021) goes step by step, FAVOR+ is not in the figure but in a claim."""
QUICK_SIZES, QUICK_PAIRS = (20, 60, 100), (("dpfp1", "delta"), ("dpfp1", "sum"), ("elu", "delta"), ("elu", "sum"))


def runs(quick: bool = False, seeds: tuple[int, ...] = SEEDS) -> list[RetrievalRun]:
    """Sum and delta rule with three maps at every size and the slower ones at some; `quick` takes a few of them."""
    if quick:
        grid = [(pair, size) for pair in QUICK_PAIRS for size in QUICK_SIZES]
    else:
        grid = [(pair, size) for pair in FULL for size in SIZES]
        grid += [(pair, size) for pair, sizes in SMALLER.items() for size in sizes]
    return [preset("overwriting", *pair, size, seed, PUBLISHED) for seed in seeds for pair, size in grid]


def report(records: Records) -> Section:
    """The figure under both evaluation lengths, and every loss as a table."""
    ours = outcomes(records).where(setting="overwriting")
    theirs = published().where(setting="overwriting")
    return Section(
        "Figure 5: overwriting at every size",
        (
            "With the same feature map the delta rule is below the sum rule at every size. Across maps it "
            "is not: beyond its 64 features, Linear with the delta rule is worse than DPFP-1 with the sum "
            "rule, in the published logs as in ours.",
        ),
        (figure5(ours, theirs),),
        (overwriting_table(ours, theirs),),
    )


def overwriting_table(ours: Outcomes, theirs: Outcomes) -> Table:
    """Best loss on length S, ours and published, by pair and size."""
    rows = []
    for (model, rule), series in OVERWRITING.items():
        found, known = ours.where(model=model, rule=rule), theirs.where(model=model, rule=rule)
        if not found:
            continue
        for kind, losses in (
            ("ours, length S", by_size(found, lambda outcome: outcome.best)),
            ("ours, length 2S", by_size(found, lambda outcome: outcome.best_by_text)),
            ("published, length S", by_size(known, lambda outcome: outcome.best)),
        ):
            if losses:
                cells = (number(losses[size]) if size in losses else "–" for size in SIZES)
                rows.append((series.label, kind, *cells))
    return Table(
        "overwriting",
        "Best evaluation loss by S.",
        ("model", "runs", *(str(size) for size in SIZES)),
        tuple(rows),
    )


def by_size(found: Outcomes, loss: Callable[[Outcome], float]) -> dict[int, float]:
    """The median over seeds at each size."""
    return {size: median([loss(o) for o in found.where(num_keys=size)]) for size in found.sizes()}
