"""Claims about translation: Tables 1 and 6 (Sec. 6.2, App. D), judged by BLEU on validation and test pairs."""

import statistics
from collections.abc import Callable

from fastweights.experiments.claim import Claim, Finding, decide
from fastweights.experiments.model_scores import over_seeds
from fastweights.experiments.translation.scores import PAPER, Corpora, Scores, compare, scores
from fastweights.feature_maps import DPFP, Favor

SPLITS = ("valid", "test")
CLOSE = 0.3
"""BLEU by which two models may differ and still be called equally good."""
TABLE_6 = {256: (128, 2), 384: (192, 3), 512: (256, 4)}
"""d_dot, and the m of the Performer and the ν of DPFP that have it at d_key = 64."""
PAIRED = "a difference counts where the paired bootstrap has p < 0.05 and at least two thirds of the seeds agree"

ours = scores


def theirs() -> Corpora:
    """What the paper's table says."""
    return PAPER


def is_better(better: Scores, worse: Scores, split: str) -> bool | None:
    """Whether the first has more BLEU than the second; None if chance may explain it.

    Published scores come without sentences, so that their difference is taken as it stands.
    """
    difference = statistics.fmean(better.of(split)) - statistics.fmean(worse.of(split))
    comparison = compare(better, worse, split)
    if comparison is not None:
        signs = [a > b for a, b in zip(better.of(split), worse.of(split), strict=False)]
        agreeing = sum(sign == (difference > 0) for sign in signs)
        if not comparison.decided() or 3 * agreeing < 2 * len(signs):
            return None
    return difference > 0


def in_words(better: Scores, worse: Scores, split: str) -> str:
    """Both scores, their difference and how likely chance makes it."""
    difference = statistics.fmean(better.of(split)) - statistics.fmean(worse.of(split))
    comparison = compare(better, worse, split)
    chance = "" if comparison is None else f", p = {comparison.p_value:.3f}"
    return f"{split} {over_seeds(better.of(split))} against {over_seeds(worse.of(split))} ({difference:+.1f}{chance})"


def ahead(better: str, worse: str) -> Callable[[Corpora], Finding]:
    """A judge for claims of the form: the first model is better than the second, on validation and on test pairs."""

    def judge(models: Corpora) -> Finding:
        held, evidence = [], []
        for corpus, (first, second) in models.with_all(better, worse):
            held += [is_better(first, second, split) for split in SPLITS]
            compared = "; ".join(in_words(first, second, split) for split in SPLITS)
            evidence.append(f"{corpus}: {better} and {worse}: {compared}")
        return decide(held, ". ".join(evidence))

    return judge


def judge_close(models: Corpora) -> Finding:
    held, evidence = [], []
    for corpus, (performer, standard) in models.with_all("performer-x8", "standard"):
        difference = statistics.fmean(performer.test) - statistics.fmean(standard.test)
        undecided = is_better(standard, performer, "test") is None
        held.append(True if abs(difference) <= CLOSE else None if undecided else False)
        evidence.append(f"{corpus}: {in_words(performer, standard, 'test')}")
    return decide(held, ". ".join(evidence))


def judge_table_6(models: Corpora) -> Finding:
    """The same for the paper and for us: the numbers are those of the feature maps."""
    sizes = {d_dot: (Favor(m).feature_dim(64), DPFP(nu).feature_dim(64)) for d_dot, (m, nu) in TABLE_6.items()}
    evidence = "; ".join(f"{d_dot}: Performer {ours[0]}, DPFP {ours[1]}" for d_dot, ours in sizes.items())
    return decide([ours == (d_dot, d_dot) for d_dot, ours in sizes.items()], evidence)


CLAIMS: tuple[Claim[Corpora], ...] = (
    Claim(
        "a large Performer is as good as softmax",
        "Sec. 6.2, Table 1",
        "The Performer is as good as the basic Transformer when it has enough random features.",
        f"BLEU on test of the Performer with d_dot = 8 d_key within {CLOSE} of Standard; if not, {PAIRED}",
        judge_close,
    ),
    Claim(
        "the Performer needs many features",
        "Table 1",
        "The Performer gets better from d_dot = 64 to 512.",
        f"more BLEU with d_dot = 8 d_key than with d_key, on valid and test; {PAIRED}",
        ahead("performer-x8", "performer-x1"),
    ),
    Claim(
        "DPFP is better than Linear",
        "Sec. 6.2, Table 1",
        "DPFP outperforms the Linear Transformer.",
        f"more BLEU of DPFP-2 than of Linear, on valid and test; {PAIRED}",
        ahead("dpfp2", "linear"),
    ),
    Claim(
        "DPFP is better than a small Performer",
        "Sec. 6.2, Table 1",
        "DPFP outperforms the Performer when d_dot is relatively small.",
        f"more BLEU of DPFP-2 than of the Performer with the same d_dot = 4 d_key, on valid and test; {PAIRED}",
        ahead("dpfp2", "performer-x4"),
    ),
    Claim(
        "a large Performer is better than DPFP",
        "Table 1",
        "At d_dot = 512 the order turns: the Performer is ahead of DPFP.",
        f"more BLEU of the Performer with d_dot = 8 d_key than of DPFP-4, on valid and test; {PAIRED}",
        ahead("performer-x8", "dpfp4"),
    ),
    Claim(
        "softmax is better than Linear",
        "Table 1",
        "The Linear Transformer is about one BLEU behind the basic one.",
        f"more BLEU of Standard than of Linear, on valid and test; {PAIRED}",
        ahead("standard", "linear"),
    ),
    Claim(
        "the size of the feature spaces",
        "Table 6",
        "d_dot is 2m for the Performer and 2ν d_key for DPFP.",
        "counted for the three columns of the table",
        judge_table_6,
    ),
)
