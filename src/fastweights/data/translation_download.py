"""WMT14 by name, fetched once by the `datasets` package and kept as a folder of plain files."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastweights.data.cache_folder import checked_folder, write_folder
from fastweights.data.hub import dataset_loader
from fastweights.data.translation_files import TEST, TRAIN, VALID, Languages

THEIR_NAMES = {TRAIN: "train", VALID: "validation", TEST: "test"}


@dataclass(frozen=True)
class PublicPairs:
    """A corpus that `datasets` downloads: which of its parts holds which languages, and how many pairs are scored."""

    path: str
    parts: Mapping[frozenset[str], str]
    held_out: tuple[int, int]


PUBLIC_PAIRS = {
    # Validation is newstest2013 and the test set newstest2014.
    "wmt14": PublicPairs("wmt/wmt14", {frozenset({"en", "de"}): "de-en"}, (3000, 3003)),
}


def download(name: str, languages: Languages, cache: Path) -> Path:
    """A folder with the files of a public corpus; pairs with an empty side are left out, as its users do."""
    corpus = PUBLIC_PAIRS[name]
    part = corpus.parts.get(frozenset({languages.source, languages.target}))
    if part is None:
        possible = " and ".join("-".join(sorted(pair)) for pair in corpus.parts)
        raise ValueError(f"{name}: it is not there in {languages}; possible: {possible}, in either direction")
    folder = cache / f"{name}-{part}"
    if not folder.exists():
        load = dataset_loader(name)
        write_folder(cache, folder.name, lambda partial: _fetch(partial, load, corpus, part, languages))
    with checked_folder(folder) as manifest:
        counts = (manifest["pairs"][VALID], manifest["pairs"][TEST])
    if counts != corpus.held_out:
        raise ValueError(f"{name}: expected {corpus.held_out} pairs to score, got {counts}: this is another corpus")
    return folder


def _fetch(
    folder: Path, load: Callable[..., Any], corpus: PublicPairs, part: str, languages: Languages
) -> Mapping[str, Any]:
    counts = {}
    for split, theirs in THEIR_NAMES.items():
        rows: Iterable[Mapping[str, Mapping[str, str]]] = load(corpus.path, part, split=theirs)
        counts[split] = 0
        with ExitStack() as stack:
            files = {
                language: stack.enter_context((folder / f"{split}.{language}").open("wb"))
                for language in (languages.source, languages.target)
            }
            for row in rows:
                # Line feeds inside a sentence would put all later lines beside the wrong translations.
                texts = {language: " ".join(row["translation"][language].split("\n")) for language in files}
                if all(text.strip() for text in texts.values()):
                    counts[split] += 1
                    for language, text in texts.items():
                        files[language].write(f"{text}\n".encode())
    return {"pairs": counts}
