"""A text that a model was not made for, in the model's own vocabulary."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fastweights.data.compressed import text_lines
from fastweights.data.text.cache import TokenArray
from fastweights.data.text.corpus import files_of, files_of_split
from fastweights.data.text.tokenizers import UNKNOWN, Vocabulary


@dataclass(frozen=True, eq=False)
class HeldOutText:
    """The tokens of a text, and the share of them that the vocabulary does not have, `<unk>` in the text included."""

    tokens: TokenArray
    unknown: float


def read_held_out(source: str | Path, split: str, vocabulary: Vocabulary, limit: int | None = None) -> HeldOutText:
    """One split of a folder, or the whole of a file, or so many tokens of it; words that are not known are `<unk>`."""
    path, token_ids = Path(source), list[int]()
    files = files_of_split(path, split) if path.is_dir() else files_of(path)[split]
    for file in files:
        for line in text_lines(file, vocabulary.tokenizer.longest_block):
            try:
                token_ids += vocabulary.encode(line)
            except ValueError as error:
                raise ValueError(f"{file}: {error}") from error
    if len(token_ids) < 2:
        raise ValueError(f"{path}: a text of {len(token_ids)} {vocabulary.tokenizer.unit}s has nothing to predict")
    tokens = np.array(token_ids[:limit], dtype=np.uint32)
    unknown = vocabulary.token_ids.get(UNKNOWN)
    return HeldOutText(tokens, 0.0 if unknown is None else float((tokens == unknown).mean()))
