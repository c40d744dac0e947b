"""What `fastweights reproduce` and `fastweights train` can be told; importing this costs nothing."""

from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The data of a model of one's own, and how it is split into tokens."""

    data: str
    """Language models: a folder with train.txt, valid.txt and test.txt, a text file, wikitext-2 or wikitext-103.
    Translators: a folder with train.en, train.de, val.* and test*.* (also .gz or .xz), a .tsv of two columns, or wmt14."""
    tokens: Literal["words", "characters", "bpe"] | None = None
    """What the text is split into; words if absent, byte pairs for translators."""
    vocabulary_size: int | None = None
    """Tokens of a byte-pair vocabulary; 8192 if absent, for translators that of the preset."""
    source: str | None = None
    """Translators: the language of the source, as its files are named; en if absent."""
    target: str | None = None
    """Translators: the language of the target, as its files are named; de if absent."""
    cache: Path | None = None
    """Folder for tokenised texts; by default fastweights in the user's cache folder."""
