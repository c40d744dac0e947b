"""A text and a language model so small that training takes a second."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from fastweights.cli.train import TrainOptions

TINY = (
    "model.model_dim=16",
    "model.num_heads=2",
    "model.num_layers=1",
    "model.feed_forward_dim=16",
    "training.steps=12",
    "training.batch_size=2",
    "training.segment_length=8",
    "training.log_every=1",
    "training.evaluate_every=6",
)


def write_book(folder: Path) -> Path:
    """A text file with a few words, over and over."""
    lines = ["the cat sat on the mat\n", "a dog ran after the cat\n", "\n", "the mat was red\n"] * 30
    (folder / "book.txt").write_text("".join(lines), encoding="utf-8")
    return folder / "book.txt"


def train_options(text: Path, **changes: Any) -> TrainOptions:
    """Train a tiny model on the text, in the folder `run` beside it."""
    folder = text.parent
    given = TrainOptions(
        preset="cpu-linear-delta",
        data=str(text),
        out=folder / "run",
        set=TINY,
        cache=folder / "cache",
        device="cpu",
        results=folder / "results",
    )
    return replace(given, **changes)
