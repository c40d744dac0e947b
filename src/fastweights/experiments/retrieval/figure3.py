"""Figure 3: learning to overwrite, by update rule (setting 2, S = 20)."""

from fastweights.experiments.retrieval.execute import PUBLISHED, RetrievalRun, preset
from fastweights.experiments.runs import Records, outcomes
from fastweights.reporting.claim import number
from fastweights.experiments.retrieval.curves import figure3
from fastweights.experiments.retrieval.series import OVERWRITING
from fastweights.experiments.retrieval.outcomes import Outcomes, median, published
from fastweights.reporting.report import Section, Table

SEEDS = (1, 2, 3)
SIZE = 20
VARIANTS = (
    ("dpfp1", "delta"),
    ("dpfp1", "sum"),
    ("dpfp1", "schlag2021"),
    ("dpfp1", "schlag2021-nolayernorm"),
    ("tanh", "schlag2021"),
    ("tanh", "schlag2021-nolayernorm"),
)
QUICK_VARIANTS = VARIANTS[:4]
"""Without the tanh baseline, which takes more than ten thousand steps of four times the batch size."""


def runs(quick: bool = False, seeds: tuple[int, ...] = SEEDS) -> list[RetrievalRun]:
    """Every variant for every seed; `quick` takes the fast variants and one seed."""
    variants, seeds = (QUICK_VARIANTS, seeds[:1]) if quick else (VARIANTS, seeds)
    return [preset("overwriting", model, rule, SIZE, seed, PUBLISHED) for model, rule in variants for seed in seeds]


def report(records: Records) -> Section:
    """The learning curves, and what each variant reached."""
    ours = variants(outcomes(records))
    theirs = variants(published())
    return Section(
        "Figure 3: learning to overwrite",
        (
            "Keys come again with new values, and the newest one is asked for. The delta rule takes the "
            "old value out before it writes; the sum rule adds the new value to it and can at best return "
            "the average.",
        ),
        (figure3(ours, theirs, SIZE),),
        (rules_table(ours, theirs),),
    )


def variants(found: Outcomes) -> Outcomes:
    """The outcomes that the figure shows."""
    small = found.where(setting="overwriting", num_keys=SIZE)
    return Outcomes(tuple(outcome for pair in VARIANTS for outcome in small.where(model=pair[0], rule=pair[1])))


def rules_table(ours: Outcomes, theirs: Outcomes) -> Table:
    """Best losses and steps of each variant, under both evaluation lengths."""
    rows = []
    for model, rule in VARIANTS:
        found, known = ours.where(model=model, rule=rule), theirs.where(model=model, rule=rule)
        if not found:
            continue
        rows.append(
            (
                OVERWRITING[(model, rule)].label,
                number(known.best(SIZE)) if known else "–",
                number(found.best(SIZE)),
                number(median([outcome.best_by_text for outcome in found])),
                ", ".join(str(outcome.steps) for outcome in known) or "–",
                ", ".join(str(outcome.steps) for outcome in found),
            )
        )
    return Table(
        "rules",
        f"Best loss at S = {SIZE}, the median over seeds, and the steps each run took.",
        (
            "variant",
            "published, length S",
            "ours, length S",
            "ours, length 2S",
            "steps, published",
            "steps, ours",
        ),
        tuple(rows),
    )
