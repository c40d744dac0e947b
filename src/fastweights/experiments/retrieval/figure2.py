"""Figure 2: how many associations a memory holds, by feature map (setting 1, sum rule)."""

from fastweights.experiments.retrieval.execute import PUBLISHED, RetrievalRun, preset
from fastweights.experiments.runs import Records, outcomes
from fastweights.reporting.claim import NEARLY_SOLVED, number
from fastweights.experiments.retrieval.capacity_figure import figure2
from fastweights.experiments.retrieval.series import CAPACITY, feature_dim
from fastweights.experiments.retrieval.outcomes import Outcomes, published
from fastweights.reporting.report import Section, Table

SEEDS = (1,)
SEEDS_OF_SOFTMAX = (1, 2, 3, 4, 5)
"""At large S, how many symbols softmax attention never tells apart is a matter of the seed."""
SIZES = (20, 40, 60, 80, 100, 120, 140, 180, 220, 260, 300, 340, 380, 420, 480, 540, 600)
MODELS = ("softmax", "elu", "dpfp1", "dpfp2", "dpfp3", "favor64", "favor128")
SMALL_SIZES = SIZES[: SIZES.index(140) + 1]
"""FAVOR+ 512 is slow, and beyond these sizes its loss is 0.5 as published."""
STABILISED_SIZES = (20, 60, 100, 140, 180, 220, 260, 300, 380, 600)
QUICK_SIZES, QUICK_MODELS = (20, 60, 100, 140, 220), ("softmax", "elu", "dpfp1", "dpfp2", "favor64")


def runs(quick: bool = False, seeds: tuple[int, ...] = SEEDS) -> list[RetrievalRun]:
    """Every model at every size; `quick` takes five of each."""
    if quick:
        grid = [(model, size) for model in QUICK_MODELS for size in QUICK_SIZES]
    else:
        grid = [(model, size) for model in MODELS for size in SIZES]
        grid += [("favor512", size) for size in SMALL_SIZES]
        grid += [("favor128-stabilised", size) for size in STABILISED_SIZES]
    several = {"softmax": SEEDS_OF_SOFTMAX} if seeds == SEEDS and not quick else {}
    return [
        preset("capacity", model, "sum", size, seed, PUBLISHED)
        for model, size in grid
        for seed in several.get(model, seeds)
    ]


def report(records: Records) -> Section:
    """The figure, and how far our runs are from the published ones."""
    ours = outcomes(records).where(setting="capacity")
    theirs = published().where(setting="capacity")
    return Section(
        "Figure 2: capacity",
        (
            "S keys are written once each with S values, then one key is asked for. A matrix with d_dot "
            "columns cannot hold more than d_dot associations apart; the loss rises along the rank bound "
            "once S passes it.",
        ),
        (figure2(ours, theirs),),
        (capacity_table(ours, theirs),),
    )


def capacity_table(ours: Outcomes, theirs: Outcomes) -> Table:
    """For each model the largest S that is nearly solved, and the loss at the largest S, against the published runs."""
    rows = []
    for model, series in CAPACITY.items():
        found = ours.where(model=model)
        if not found:
            continue
        # The published grid is finer: only sizes that both have can be compared.
        known = theirs.where(model=model).on(found.sizes())
        largest = found.sizes()[-1]
        loss = number(found.best(largest)) + spread(found.on([largest]))
        rows.append(
            (
                series.label,
                str(feature_dim(model) or "∞"),
                *((solved(known), solved(found), steps_apart(found, known)) if known else ("–", solved(found), "–")),
                str(largest),
                *((number(known.best(largest)), loss, difference(found, known)) if known else ("–", loss, "–")),
                f"{len(found.sizes())} of {len(SIZES)}",
            )
        )
    return Table(
        "capacity",
        f"Largest S with a best loss of at most {NEARLY_SOLVED}, and the best loss at the largest S that was run; "
        "medians where there are several seeds.",
        (
            "model",
            "d_dot",
            f"largest S ≤ {NEARLY_SOLVED}, published",
            "ours",
            "grid steps apart",
            "largest S run",
            "loss there, published",
            "ours",
            "difference",
            "sizes run",
        ),
        tuple(rows),
    )


def spread(found: Outcomes) -> str:
    """From the smallest to the largest best loss, where there are several seeds."""
    losses = [outcome.best for outcome in found]
    return f" ({number(min(losses))} to {number(max(losses))}, {len(losses)} seeds)" if len(losses) > 1 else ""


def solved(found: Outcomes) -> str:
    """The largest S that is nearly solved."""
    return str(found.largest_solved(NEARLY_SOLVED) or "none")


def steps_apart(found: Outcomes, known: Outcomes) -> str:
    """How many sizes of the grid lie between the largest S that is nearly solved here and there."""
    reached = [
        sum(size <= (outcomes.largest_solved(NEARLY_SOLVED) or 0) for size in found.sizes())
        for outcomes in (found, known)
    ]
    return str(abs(reached[0] - reached[1]))


def difference(found: Outcomes, known: Outcomes) -> str:
    """Our loss minus the published one at the largest S that was run."""
    largest = found.sizes()[-1]
    return f"{found.best(largest) - known.best(largest):+.3f}"
