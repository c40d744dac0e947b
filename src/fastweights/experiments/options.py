"""What `fastweights reproduce` can be told; importing this costs nothing."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ReproduceOptions:
    """How the runs of figures and tables are made."""

    quick: bool = False
    """Figures: a few sizes and models, minutes instead of hours."""
    seeds: tuple[int, ...] = ()
    """Figures: seeds to run; those of the figure if absent."""
    scale: Literal["cpu", "paper"] = "cpu"
    """Tables: cpu trains models for two cores on WikiText-2, paper those of the paper on WikiText-103."""
    data: str | None = None
    """Tables: folder with the text; by default WikiText is downloaded, which needs the datasets package."""
    threads: int | None = None
    """Tables: CPU threads. With fewer than there are cores, run the same command beside it: they share the work."""
    device: str = "auto"
    """Tables: where to train; under torchrun, each process takes a GPU of its own."""
    jobs: int | None = None
    """How many runs side by side, one thread each; figures: one per core if absent, tables: one after the other."""
