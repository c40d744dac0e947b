"""Figure 4: learning curves of the capacity experiment at its largest size (App. C.1)."""

from fastweights.experiments.retrieval.execute import figure2
from fastweights.experiments.retrieval.execute import PUBLISHED, RetrievalRun, preset
from fastweights.experiments.runs import Records, outcomes
from fastweights.experiments.retrieval.execute import curves
from fastweights.experiments.retrieval.outcomes import published
from fastweights.reporting.report import Section

SEEDS = (1,)
SIZE, QUICK_SIZE = 600, 140


def runs(quick: bool = False, seeds: tuple[int, ...] = SEEDS) -> list[RetrievalRun]:
    """Every model of Figure 2 at S = 600; `quick` takes the models of its quick form at S = 140."""
    models, size = (figure2.QUICK_MODELS, QUICK_SIZE) if quick else (figure2.MODELS, SIZE)
    return [preset("capacity", model, "sum", size, seed, PUBLISHED) for seed in seeds for model in models]


def report(records: Records) -> Section:
    """The curves at S = 600 or, until those are there, at the size of the quick form."""
    found = outcomes(records).where(setting="capacity")
    size = SIZE if SIZE in found.sizes() else QUICK_SIZE
    ours, theirs = found.where(num_keys=size), published().where(setting="capacity", num_keys=size)
    return Section(
        "Figure 4: learning curves",
        ("Each memory learns until its rank stops it; softmax attention, which keeps every pair, goes on.",),
        (curves.figure4(ours, theirs, size),),
    )
