"""Figure 1: the DPFP surfaces. Nothing to train."""

from fastweights.experiments.retrieval.execute import RetrievalRun
from fastweights.experiments.runs import Records
from fastweights.experiments.retrieval.surfaces import figure1
from fastweights.reporting.report import Section

SEEDS: tuple[int, ...] = ()


def runs(quick: bool = False, seeds: tuple[int, ...] = SEEDS) -> list[RetrievalRun]:
    """None."""
    return []


def report(records: Records) -> Section:
    """The surfaces of Eqs. 33 to 36, computed by the feature map itself."""
    return Section(
        "Figure 1: what DPFP does",
        (
            "DPFP multiplies pairs of rectified coordinates. In two dimensions each key activates one of "
            "four features, so keys of different quarters of the plane do not meet in the memory.",
        ),
        (figure1(),),
    )
