"""Options of `fastweights reproduce`, `train` and `evaluate`. Importing this costs nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg


def optional(metavar: str, name: str | None = None) -> Any:
    """An option that may be left out, for the help text: without it tyro shows {None}|INT and (default: None)."""
    return arg(metavar=metavar, name=name, help_behavior_hint="(optional)")


OptionalInt = Annotated[int | None, optional("INT")]
OptionalFloat = Annotated[float | None, optional("FLOAT")]
OptionalText = Annotated[str | None, optional("TEXT")]
OptionalPath = Annotated[Path | None, optional("PATH")]
Device = Annotated[str, arg(metavar="DEVICE", help="auto takes a GPU if there is one; cpu, cuda or cuda:1.")]
Checkpoint = Annotated[Literal["best", "newest"], arg(help="The one with the best validation, or the newest.")]
Threads = Annotated[int | None, arg(metavar="INT", help="CPU threads.", help_behavior_hint="(optional)")]


@dataclass(frozen=True)
class ReproduceOptions:
    """How the runs of figures and tables are made."""

    quick: bool = False
    """Figures: a few sizes and models, minutes instead of hours."""
    seeds: tuple[int, ...] = ()
    """Seeds to run; those of the figure or table if absent. Tables: other seeds only for models that decide a claim."""
    scale: Literal["cpu", "paper"] = "cpu"
    """Tables: cpu trains models for two cores on WikiText-2 or Europarl, paper those of the paper on WikiText-103."""
    data: OptionalText = None
    """Folder with the text of a table (by default WikiText is downloaded, which needs the datasets package), with the
    files of bAbI, or with those of MNIST."""
    threads: OptionalInt = None
    """Tables: CPU threads. With fewer than there are cores, run the same command beside it: they share the work."""
    device: str = "auto"
    """Tables: where to train; under torchrun, each process takes a GPU of its own."""
    jobs: OptionalInt = None
    """How many runs side by side, one thread each; figures: one per core if absent, tables: one after the other."""
    cluster: Annotated[str | None, optional("ADDRESS")] = None
    """Run on the workers of the Dask scheduler at this address instead, such as tcp://HOST:8786 or tls://HOST:8786."""
    cluster_ca: OptionalPath = None
    """TLS: the certificate of the authority that the cluster trusts."""
    cluster_cert: OptionalPath = None
    """TLS: the certificate of this machine."""
    cluster_key: OptionalPath = None
    """TLS: the key of that certificate."""


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The data of a model of one's own, and how it is split into tokens."""

    data: str
    """Language models: a folder with train.txt, valid.txt and test.txt, a text file, wikitext-2 or wikitext-103.
    Translators: a folder with train.en, train.de, val.* and test*.* (also .gz or .xz), a .tsv, or wmt14."""
    tokens: Annotated[Literal["words", "characters", "bpe"] | None, optional("{words,characters,bpe}")] = None
    """How the text is split; words if absent, byte pairs for translators."""
    vocabulary_size: OptionalInt = None
    """Tokens of a byte-pair vocabulary; 8192 if absent, for translators that of the preset."""
    source: OptionalText = None
    """Translators: the language of the source, as its files are named; en if absent."""
    target: OptionalText = None
    """Translators: the language of the target, as its files are named; de if absent."""
    cache: OptionalPath = None
    """Folder for tokenised texts; by default fastweights in the user's cache folder."""


def refuse_languages(options: DataOptions) -> None:
    """Raise a ValueError if a language model was given what only translators have."""
    if options.source is not None or options.target is not None:
        raise ValueError("source and target: a language model reads one language; they are for translators")


@dataclass(frozen=True)
class EvaluateOptions:
    """Measure a trained model on a split of its data."""

    run: Positional[Path]
    """Folder of the run."""
    split: str = "test"
    """Language models: valid or test. Translators: val, or the name of a test set; test is the first one."""
    context: Literal["auto", "sliding", "segments", "carried"] = "auto"
    """Language models: sliding window, independent segments, memory carried on; auto: as the model was trained."""
    stride: int = 1
    """Language models: steps that a sliding window moves; 1 is the paper's evaluation, more is faster."""
    length: OptionalInt = None
    """Language models: tokens of a window or segment; by default that of the training."""
    reach: OptionalInt = None
    """Language models: tokens after which a carried memory is reset; by default it never is."""
    batch_size: int = 32
    """Language models: windows or segments at a time."""
    limit: OptionalInt = None
    """Only the first tokens or sentences of the split, this many."""
    beam: OptionalInt = None
    """Translators: hypotheses of the beam search, 1 for greedy; by default that of the table."""
    length_penalty: OptionalFloat = None
    """Translators: log p / length^PENALTY decides between hypotheses; by default that of the table."""
    reference: Annotated[tuple[Path, Path] | None, optional("SOURCE REFERENCE")] = None
    """Translators: a source and a reference file of one's own instead of a split."""
    checkpoint: Checkpoint = "best"
    data: OptionalText = None
    """Where the text is now, if it was moved. Language models: or another text, a file or a folder with the split."""
    device: Device = "auto"
    threads: Threads = None
    cache: OptionalPath = None
    """Folder for tokenised texts; by default fastweights in the user's cache folder."""

    def refuse(self, names: Iterable[str], model: str) -> None:
        """Raise a ValueError if one of these options, which mean nothing for this kind of model, was given."""
        for name in names:
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise ValueError(
                    f"{name}: {model} has no such thing; `fastweights evaluate --help` says what it is for"
                )
