"""What the commands about language models can be told; importing this costs nothing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional


@dataclass(frozen=True)
class TrainOptions:
    """Train a language model, or go on with a run that was stopped; give the same command again."""

    preset: str
    """Model and recipe, for instance cpu-linear-delta; an unknown name tells which there are."""
    data: str
    """A folder with train.txt, valid.txt and test.txt, a text file, or wikitext-2 or wikitext-103."""
    out: Path
    """Folder of the run."""
    tokens: Literal["words", "characters", "bpe"] = "words"
    """What the text is split into."""
    vocabulary_size: int | None = None
    """Symbols of a byte-pair vocabulary; 8192 if absent."""
    set: tuple[str, ...] = ()
    """Changes to the preset as path=value: training.steps=200, model.attention.feature_map.nu=2."""
    when_not_finite: Literal["stop", "skip"] = "stop"
    """What to do when a loss or gradient is not finite; it never reaches the weights."""
    save_every_steps: int = 1000
    save_every_seconds: float = 300.0
    device: str = "auto"
    threads: int | None = None
    """CPU threads; losses are the same to the last bit only with the same number."""
    cache: Path | None = None
    """Folder for tokenised texts; by default fastweights in the user's cache folder."""


@dataclass(frozen=True)
class EvaluateOptions:
    """Perplexity of a trained model on a split of its text."""

    run: Positional[Path]
    """Folder of the run."""
    split: Literal["valid", "test"] = "test"
    context: Literal["auto", "sliding", "segments", "carried"] = "auto"
    """Sliding window, independent segments, memory carried over the whole text; auto: as the model was trained."""
    stride: int = 1
    """Steps that a sliding window moves; 1 is the paper's evaluation, more is faster."""
    length: int | None = None
    """Tokens of a window or segment; by default that of the training."""
    reach: int | None = None
    """Tokens after which a carried memory is emptied; by default it never is."""
    batch_size: int = 32
    limit: int | None = None
    """Only the first so many tokens of the split."""
    checkpoint: Literal["best", "newest"] = "best"
    data: str | None = None
    """Where the text is now, if it was moved."""
    device: str = "auto"
    threads: int | None = None
    cache: Path | None = None


@dataclass(frozen=True)
class GenerateOptions:
    """Let a trained model continue a text."""

    run: Positional[Path]
    """Folder of the run."""
    prompt: str = ""
    length: int = 200
    """Words, characters or byte pairs to write."""
    temperature: float = 1.0
    """0 takes the likeliest word every time."""
    top_k: int = 0
    """Choose among so many words; 0 for all."""
    top_p: float = 1.0
    """Choose among the likeliest words that together have this probability."""
    seed: int = 0
    checkpoint: Literal["best", "newest"] = "best"
    device: str = "auto"
    threads: int | None = None


@dataclass(frozen=True)
class TableOptions:
    """How the language models of the paper's tables are trained."""

    scale: Literal["cpu", "paper"] = "cpu"
    """Tables: cpu trains models for two cores on WikiText-2, paper those of the paper on WikiText-103."""
    data: str | None = None
    """Tables: folder with the text; by default WikiText is downloaded, which needs the datasets package."""
    threads: int | None = None
    """Tables: CPU threads. With fewer than there are cores, give the command again beside it: they share the work."""
    device: str = "auto"
    """Tables: where to train; under torchrun, each process takes a GPU of its own."""
