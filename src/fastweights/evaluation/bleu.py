"""BLEU and chrF of translations, by sacreBLEU (Papineni et al., 2002; Post, 2018).

Cased, detokenised text is scored against the raw references; the signature says everything that decides the number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastweights.evaluation.bootstrap import Statistics


@dataclass(frozen=True)
class TranslationScore:
    """BLEU = BP · exp(¼ Σₙ log pₙ) and chrF of one system's translations, in per cent."""

    bleu: float
    brevity_penalty: float
    precisions: tuple[float, ...]
    """p₁ … p₄, the shares of n-grams that the reference has too."""
    length_ratio: float
    """Words of the translations for each word of the references."""
    chrf: float
    sentences: int
    signature: str
    chrf_signature: str
    statistics: Statistics
    """Of every sentence, for `compare_statistics`."""


def score_translations(hypotheses: Sequence[str], references: Sequence[str]) -> TranslationScore:
    """The score of translations, each against the one reference of its sentence."""
    _refuse_what_is_not_paired(hypotheses, references)
    metrics = _sacrebleu().metrics
    bleu, chrf = metrics.BLEU(), metrics.CHRF()
    words = bleu.corpus_score(list(hypotheses), [list(references)])
    characters = chrf.corpus_score(list(hypotheses), [list(references)])
    return TranslationScore(
        bleu=float(words.score),
        brevity_penalty=float(words.bp),
        precisions=tuple(map(float, words.precisions)),
        length_ratio=words.sys_len / words.ref_len,
        chrf=float(characters.score),
        sentences=len(hypotheses),
        signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        statistics=_statistics(hypotheses, references),
    )


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Keep translations as a text file, one a line, that others can score again."""
    broken = next((number for number, line in enumerate(lines, start=1) if "\n" in line), None)
    if broken is not None:
        raise ValueError(
            f"{path}: translation {broken} has a line feed inside, so that lines would not count sentences"
        )
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that holds one sentence a line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (byte {error.object[error.start]:#04x}: {error.reason})") from error


def _refuse_what_is_not_paired(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references) or not references:
        raise ValueError(
            f"hypotheses: expected one for each of the references, and at least one, got {len(hypotheses)} for "
            f"{len(references)}"
        )
    empty = next((number for number, line in enumerate(references, start=1) if not line.strip()), None)
    if empty is not None:
        raise ValueError(f"references: line {empty} is empty, so that no translation of it can be right")


def _statistics(hypotheses: Sequence[str], references: Sequence[str]) -> list[list[int]]:
    # The effective order changes the score of a sentence, which is not used, and not what is counted.
    bleu = _sacrebleu().metrics.BLEU(effective_order=True)
    scores = [bleu.sentence_score(*pair) for pair in zip(hypotheses, ([line] for line in references), strict=True)]
    return [[*map(int, score.counts), *map(int, score.totals), score.sys_len, score.ref_len] for score in scores]


def _sacrebleu() -> Any:
    try:
        import sacrebleu
    except ImportError as error:
        raise ValueError("BLEU needs the sacrebleu package: pip install 'fastweights[mt]'") from error
    return sacrebleu
