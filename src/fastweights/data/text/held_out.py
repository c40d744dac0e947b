"""A text that a model was not made for, in the model's own vocabulary."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fastweights.data.compressed import text_lines
from fastweights.data.text.cache import TokenArray
from fastweights.data.text.corpus import files_of
from fastweights.data.text.tokenizers import Vocabulary


@dataclass(frozen=True, eq=False)
class HeldOutText:
    """The tokens of a text, and the share of them that the vocabulary does not have."""

    tokens: TokenArray
    unknown: float


def read_held_out(source: str | Path, split: str, vocabulary: Vocabulary) -> HeldOutText:
    """One split of a folder, or the whole of a file; what the vocabulary does not have becomes `<unk>`."""
    path = Path(source)
    files = [path] if path.is_file() else files_of(path)[split]
    known, token_ids, unknown = vocabulary.token_ids, [], 0
    for file in files:
        for line in text_lines(file, vocabulary.tokenizer.longest_block):
            try:
                token_ids += vocabulary.encode(line)
            except ValueError as error:
                raise ValueError(f"{file}: {error}") from error
            unknown += sum(symbol not in known for symbol in vocabulary.tokenizer.split(line))
    if len(token_ids) < 2:
        raise ValueError(f"{path}: a text of {len(token_ids)} {vocabulary.tokenizer.unit}s has nothing to predict")
    return HeldOutText(np.array(token_ids, dtype=np.uint32), unknown / len(token_ids))
