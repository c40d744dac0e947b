"""Claims about language models: Tables 2-5 (Sec. 6.3, App. E), judged by test perplexity at every size there is."""

from collections.abc import Callable
from functools import cache
from statistics import fmean

import torch

from fastweights.experiments.claim import Claim, Finding, decide
from fastweights.experiments.language_models.perplexities import (
    DIFFERS,
    PAPER,
    Perplexities,
    Perplexity,
    is_lower,
    pairs_of_seeds,
    perplexities,
)
from fastweights.experiments.language_models.presets import PRESETS
from fastweights.experiments.language_models.table4 import TRUNCATED

BROKEN = 2.0
"""A model has broken down if carrying its memory multiplies its perplexity by this or more."""
GATES = {"small": 16_384, "medium": 32_768}
"""Parameters that β adds to the paper's models; it writes 16 K and 33 K."""

ours = perplexities


def theirs() -> Perplexities:
    """What the paper's tables say."""
    return PAPER


def compare(*pairs: tuple[str, str]) -> Callable[[Perplexities], Finding]:
    """A judge for claims of the form: the first of each pair has the lower perplexity."""

    def judge(models: Perplexities) -> Finding:
        held, evidence = [], []
        for better, worse in pairs:
            for size, (first, second) in models.with_all(better, worse):
                held.append(is_lower(first, second, "test"))
                evidence.append(f"{size}: {better} {in_words(first)}, {worse} {in_words(second)}")
        return decide(held, "; ".join(evidence))

    return judge


def in_words(found: Perplexity) -> str:
    """The test perplexity."""
    return found.in_words("test")


def judge_gain_of_dpfp(models: Perplexities) -> Finding:
    held, evidence = [], []
    names = ("performer-wide-sum", "performer-wide-delta", "dpfp-sum", "dpfp-delta")
    for size, (performer_sum, performer_delta, dpfp_sum, dpfp_delta) in models.with_all(*names):
        gains = [gain(performer_delta, performer_sum), gain(dpfp_delta, dpfp_sum)]
        held += [gains[1] > gains[0], is_lower(dpfp_delta, performer_delta, "test")]
        evidence.append(
            f"{size}: the delta rule gains {gains[0]:.1f} with Performer and {gains[1]:.1f} with DPFP-1, which ends at "
            f"{in_words(dpfp_delta)} against {in_words(performer_delta)}"
        )
    return decide(held, "; ".join(evidence))


def gain(better: Perplexity, worse: Perplexity) -> float:
    """By how much the test perplexity falls, with the seeds that both have where there are some."""
    pairs = pairs_of_seeds(better, worse) or [(better, worse)]
    return fmean(other.test - one.test for one, other in pairs)


def judge_broken_sum(models: Perplexities) -> Finding:
    held, evidence = [], []
    for size, (with_positions, carried) in models.with_all("linear-sum", "linear-sum-nopos-carried"):
        # The paper has no sum rule without positions but the carried one.
        truncated = models.get(size, "linear-sum-nopos") or with_positions
        held.append(carried.test > BROKEN * truncated.test)
        published = models.get(size, "linear-sum-nopos-carried-published")
        with_it = f", {in_words(published)} carried and trained with the published gradient" if published else ""
        evidence.append(f"{size}: {in_words(truncated)} with truncated context, {in_words(carried)} carried{with_it}")
    return decide(held, "; ".join(evidence))


def judge_carried(models: Perplexities) -> Finding:
    held, evidence = [], []
    for carried, truncated in TRUNCATED.items():
        for size, (first, second) in models.with_all(carried, truncated):
            ahead = [is_lower(first, second, text) for text in ("valid", "test")]
            held.append(False if False in ahead else None if None in ahead else True)
            numbers = " against ".join(" and ".join(found.cells()) for found in (first, second))
            evidence.append(f"{size}: {carried} {numbers} truncated")
    some = True if True in held else None if None in held else False
    return decide([some] if held else [], "; ".join(evidence))


def judge_gates(models: Perplexities) -> Finding:
    """The same for the paper and for us: the numbers are those of the architecture."""
    extra = {size: parameters(f"{size}-linear-delta") - parameters(f"{size}-linear-sum") for size in GATES}
    evidence = "; ".join(f"{size}: {count:,} more than the sum rule" for size, count in extra.items())
    return decide([extra[size] == count for size, count in GATES.items()], evidence)


@cache
def parameters(preset: str) -> int:
    """How many parameters the model of a preset has; none of them is allocated."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in PRESETS[preset].task.empty_model().parameters())


CLAIMS: tuple[Claim[Perplexities], ...] = (
    Claim(
        "the delta rule improves every map",
        "Sec. 6.3, Table 2",
        "The delta rule gives better language models than the sum rule, with either feature map.",
        f"test perplexity of delta below that of sum, for Linear and Performer, at every size; {DIFFERS}",
        compare(("linear-delta", "linear-sum"), ("performer-delta", "performer-sum")),
    ),
    Claim(
        "softmax stays ahead",
        "Table 2",
        "In windows of a few hundred words the Transformer remains better than linear memories.",
        f"test perplexity of the Transformer below Linear with the delta rule, at every size; {DIFFERS}",
        compare(("transformer", "linear-delta")),
    ),
    Claim(
        "positions are not needed",
        "Sec. 6.3, Table 3",
        "With the delta rule, models without positional encodings are better.",
        f"test perplexity without positions below that with them, with and without attention normalisation; {DIFFERS}",
        compare(("linear-delta-nopos", "linear-delta"), ("linear-delta-attnnorm-nopos", "linear-delta-attnnorm")),
    ),
    Claim(
        "attention normalisation is not needed",
        "Sec. 6.3, Table 3",
        "With sum normalisation, models without attention normalisation are better.",
        f"test perplexity without it below that with it, with and without positions; {DIFFERS}",
        compare(("linear-delta", "linear-delta-attnnorm"), ("linear-delta-nopos", "linear-delta-attnnorm-nopos")),
    ),
    Claim(
        "carried memories are better",
        "Sec. 6.3, Table 4",
        "The delta rule takes unlimited context without trouble, and gains from it.",
        "test perplexity of Linear delta without positions lower with carried memory than with truncated "
        f"context; {DIFFERS}",
        compare(("linear-delta-nopos-carried", "linear-delta-nopos")),
    ),
    Claim(
        "some memory gains from being carried",
        "Sec. 6.3, Table 4",
        "A memory of fixed size can gain from unlimited context.",
        "some model of Table 4 has lower valid and test perplexity with carried memory than the same model with "
        f"truncated context; {DIFFERS}",
        judge_carried,
        "Of ours, the rows that are not in the paper count too.",
    ),
    Claim(
        "the sum rule breaks",
        "Sec. 6.3, Table 4",
        "The sum rule breaks down when its memory is carried on.",
        f"test perplexity of Linear sum more than {BROKEN:g} times as high with carried memory",
        judge_broken_sum,
        "The published gradient of the sum rule left out the carried memory's part; here it is complete.",
    ),
    Claim(
        "Transformer-XL is better still",
        "Sec. 6.3, Table 4",
        "Transformer-XL is ahead of the memory of fixed size.",
        f"test perplexity of Transformer-XL below Linear delta with carried memory; {DIFFERS}",
        compare(("transformer-xl", "linear-delta-nopos-carried")),
    ),
    Claim(
        "DPFP gains most",
        "App. E, Table 5",
        "With more features than dimensions, the delta rule helps DPFP more than Performer, and DPFP ends ahead.",
        "sum minus delta larger for DPFP-1 than for Performer, and DPFP-1 delta below Performer delta",
        judge_gain_of_dpfp,
    ),
    Claim(
        "gates are cheap",
        "Table 2",
        "β adds 16 K parameters to the small configuration and 33 K to the medium one.",
        "parameters of Linear delta minus Linear sum, counted",
        judge_gates,
    ),
)
