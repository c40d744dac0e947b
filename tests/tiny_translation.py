"""A corpus of a few sentence pairs, and a translator as small."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from fastweights.cli.train import TrainOptions

WORDS = {"a": "ein", "dog": "Hund", "cat": "Kater", "man": "Mann", "sees": "sieht", "likes": "mag", "old": "alter"}
"""Every word has one translation."""

TINY = (
    *(f"model.{name}=1" for name in ("encoder_layers", "decoder_layers")),
    *(f"model.{change}" for change in ("model_dim=16", "num_heads=2", "feed_forward_dim=16")),
    *(f"training.{change}" for change in ("steps=6", "batch_size=120", "evaluate_every=2", "warmup_steps=0")),
    *("training.log_every=1", "longest=40"),
)


def sentences(count: int, first: int) -> list[str]:
    """Sentences that differ from number to number."""
    nouns, verbs = ("dog", "cat", "man"), ("sees", "likes")
    return [
        f"a {'old ' * (n % 3)}{nouns[n % 3]} {verbs[n // 3 % 2]} a {'old ' * (n // 6 % 2)}{nouns[n // 2 % 3]}"
        for n in range(first, first + count)
    ]


def translated(line: str) -> str:
    """The translation, word by word."""
    return " ".join(WORDS[word] for word in line.split())


def write_pairs(folder: Path) -> Path:
    """A folder of pairs with two test sets."""
    pairs = folder / "pairs"
    pairs.mkdir()
    for first, (split, count) in enumerate((("train", 60), ("val", 6), ("test_a", 5), ("test_b", 4))):
        lines = sentences(count, first)
        (pairs / f"{split}.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        (pairs / f"{split}.de").write_text("".join(f"{translated(line)}\n" for line in lines), encoding="utf-8")
    return pairs


def train_options(pairs: Path, **changes: Any) -> TrainOptions:
    """Train a tiny translator on the pairs, in the folder `run` beside them."""
    folder = pairs.parent
    given = TrainOptions(
        preset="translation-cpu-dpfp2-delta",
        data=str(pairs),
        out=folder / "run",
        vocabulary_size=280,
        set=TINY,
        cache=folder / "cache",
        device="cpu",
        results=folder / "results",
    )
    return replace(given, **changes)
