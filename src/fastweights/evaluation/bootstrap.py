"""Do two systems differ? BLEU from sufficient statistics, and the paired bootstrap (Koehn, 2004).

A sentence is ten whole numbers: how many of its 1- to 4-grams are right, how many it has, and the words of the
translation and of the reference. BLEU of any selection of sentences follows from their sum, so a record that keeps them
can be compared with any other without the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLES = 1000
SEED = 12_345
"""That of sacreBLEU, so that both draw the same sentences."""

Statistics = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Comparison:
    """By how much BLEU of a system exceeds that of a baseline, and how likely chance alone makes so much."""

    difference: float
    p_value: float
    samples: int

    def decided(self, level: float = 0.05) -> bool:
        """True if chance is an unlikely explanation."""
        return self.p_value < level


def bleu_of(statistics: NDArray[Any]) -> NDArray[np.float64]:
    """BLEU = min(1, e^{1 - r/c}) exp(¼ Σₙ log pₙ) in per cent, of sums of statistics along the last axis.

    The k-th precision of nothing counts as one right n-gram in 2ᵏ, as sacreBLEU's usual smoothing has it.
    """
    sums = np.asarray(statistics, dtype=np.float64)
    right, total, words, reference = sums[..., :4], sums[..., 4:8], sums[..., 8], sums[..., 9]
    zeros = np.cumsum(right == 0, axis=-1)
    smoothed = np.where(right > 0, right, 0.5**zeros)
    scored = (total > 0).all(axis=-1) & (right > 0).any(axis=-1)
    logarithms = np.log(smoothed / np.maximum(total, 1)).mean(axis=-1)
    brevity = np.minimum(1 - reference / np.maximum(words, 1), 0)
    return np.where(scored, 100 * np.exp(logarithms + brevity), 0.0)


def compare_statistics(
    baseline: Sequence[Statistics], system: Sequence[Statistics], samples: int = SAMPLES
) -> Comparison:
    """Paired bootstrap of two systems, each trained with one or more seeds: of the difference of their mean BLEU.

    All are scored on the same resampled sentences. p is the share of samples whose difference exceeds their mean by
    more than the difference on all sentences.
    """
    if samples < 1:
        raise ValueError(f"samples: expected at least 1, got {samples}")
    first, second = (np.asarray(runs, dtype=np.float64) for runs in (baseline, system))
    if first.ndim != 3 or second.ndim != 3 or first.shape[1:] != second.shape[1:]:
        raise ValueError(f"statistics: expected those of the same sentences, got {first.shape[1:]}, {second.shape[1:]}")
    sentences = first.shape[1]
    drawn = np.random.default_rng(SEED).choice(sentences, size=(samples, sentences), replace=True)
    counts = np.stack([np.bincount(row, minlength=sentences) for row in drawn]).astype(np.float64)
    differences = np.abs(_mean_bleu(second, counts) - _mean_bleu(first, counts))
    difference = float(bleu_of(second.sum(1)).mean() - bleu_of(first.sum(1)).mean())
    exceeding = int(np.sum(differences - differences.mean() > abs(difference)))
    # Samples of two equal systems never differ, which is no sign that the systems do.
    p_value = (exceeding + 1) / (samples + 1) if difference else 1.0
    return Comparison(difference, p_value, samples)


def check_statistics(statistics: Any, split: str) -> None:
    """Raise a ValueError if this is not a list of ten whole numbers a sentence."""
    rows = statistics if isinstance(statistics, list) else []
    whole = all(
        isinstance(row, list) and len(row) == 10 and all(type(x) is int and x >= 0 for x in row) for row in rows
    )
    if not rows or not whole:
        raise ValueError(f"'statistics' of {split} are not ten whole numbers a sentence")


def _mean_bleu(runs: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over seeds of BLEU on every sample of sentences."""
    means: NDArray[np.float64] = np.mean([bleu_of(counts @ statistics) for statistics in runs], axis=0)
    return means
