"""What the paper says about balancing writes and removals, what the review asks to see, and a second criterion."""

import math

from fastweights.experiments.claim import NOT_RUN, Claim, Finding, decide
from fastweights.experiments.contrast.contrast import RANDOM_STEP
from fastweights.experiments.contrast.outcomes import Kind, TracedMemories, outcomes

KINDS: tuple[Kind, ...] = ("new", "repeated")
FACTOR = 2.0
"""Weights that differ by more than this factor are not balanced."""
NEAR = 0.01
"""How near to 1 a criterion counts as met."""

ours = outcomes
"""Our trained memories, and their random streams; the authors published no such measurement."""


def met(value: float) -> bool:
    """Whether a criterion is 1."""
    return abs(value - 1) <= NEAR


def judge_attention_does_not_balance(found: TracedMemories) -> Finding:
    if "delta-attention" not in found.results:
        return NOT_RUN
    new, repeated = (found.write("delta-attention", kind, "balance") for kind in KINDS)
    contrast = [found.write("delta-attention", kind, "contrast") for kind in KINDS]
    evidence = (
        f"B = {new:.3g} under new keys (|v̄| = {found.write('delta-attention', 'new', 'retrieved'):.2g}, where nothing "
        f"is to be removed) and {repeated:.3g} under repeated ones; contrast {contrast[0]:.2f} and {contrast[1]:.2f}"
    )
    return decide([new > FACTOR or new < 1 / FACTOR, repeated > FACTOR or repeated < 1 / FACTOR], evidence)


def judge_sum_balances(found: TracedMemories) -> Finding:
    if "delta-sum" not in found.results:
        return NOT_RUN
    values = [found.write("delta-sum", kind, "balance") for kind in KINDS]
    values += [x for x in [found.streams.at("delta-sum", "balance", RANDOM_STEP)] if not math.isnan(x)]
    return decide([met(value) for value in values], f"B = {', '.join(f'{value:.4f}' for value in values)}")


def judge_sum_lands(found: TracedMemories) -> Finding:
    if "delta-sum" not in found.results:
        return NOT_RUN
    trained = min(found.write("delta-sum", kind, "landing") for kind in KINDS)
    random = found.streams.at("delta-sum", "landing", RANDOM_STEP)
    square, cosine = found.write("delta-sum", "repeated", "key_square"), found.crosstalk("delta-sum")
    return decide(
        [trained > 1 - 0.1, None if math.isnan(random) else random > 1 - 0.1],
        f"λ = {trained:.3f} in trained memories, for which training makes keys nearly one-hot (|k|² = {square:.3f}, "
        f"cosine of different keys {cosine:.3f}); λ = {random:.2f} under random keys",
    )


def judge_both_criteria(found: TracedMemories) -> Finding:
    if "nlms-sum" not in found.results:
        return NOT_RUN
    values = [found.write("nlms-sum", kind, name) for name in ("balance", "landing") for kind in KINDS]
    values += [found.streams.at("nlms-sum", name, RANDOM_STEP) for name in ("balance", "landing")]
    losses = [found.loss_at(name, 40) for name in ("nlms-sum", "delta-sum")]
    square = found.write("nlms-sum", "repeated", "key_square")
    return decide(
        [met(value) for value in values if not math.isnan(value)],
        f"B and λ between {min(values):.4f} and {max(values):.4f}, trained and random; loss {losses[0]:.2g} (sum "
        f"normalisation {losses[1]:.2g}) with keys that are not one-hot, |k|² = {square:.2f}",
    )


def judge_beyond_training(found: TracedMemories) -> Finding:
    if not {"delta-attention", "delta-sum", "delta-l2"} <= found.results.keys():
        return NOT_RUN
    longest = found.by_length("delta-sum")[-1][0]
    losses = {name: found.loss_at(name, longest) for name in found.results}
    attention, without = losses["delta-attention"], max(losses["delta-sum"], losses["delta-l2"])
    return decide(
        [attention > 10 * without],
        f"loss after {longest:,} pairs: attention normalisation {attention:.2g}, sum {losses['delta-sum']:.2g}, L2 "
        f"{losses['delta-l2']:.2g}, centred L2 {losses.get('delta-centred-l2', math.nan):.2g}, NLMS "
        f"{losses.get('nlms-sum', math.nan):.2g}, none {losses.get('delta-none', math.nan):.2g}",
    )


CLAIMS: tuple[Claim[TracedMemories], ...] = (
    Claim(
        "attention normalisation does not balance",
        "Sec. 4.2",
        "“this normalisation is not sufficient to balance the weights between write and remove operations in Eq. 23”",
        f"median B of trained memories differs from 1 by more than a factor of {FACTOR:g}, under new and repeated keys",
        judge_attention_does_not_balance,
        "The review: “The paper could empirically demonstrate this claim by monitoring the contrast between retrieved "
        "and written values.”",
    ),
    Claim(
        "sum normalisation balances",
        "Sec. 4.2, App. A.2",
        "“We can force these weights to be balanced by introducing the normalisation”",
        f"median B within {NEAR:.0%} of 1: new keys, repeated keys, random stream",
        judge_sum_balances,
    ),
)

REVIEW: tuple[Claim[TracedMemories], ...] = (
    Claim(
        "contrast under attention normalisation",
        "review, “contrast between retrieved and written values”",
        "Does attention normalisation fail to balance writes and removals?",
        CLAIMS[0].rule,
        judge_attention_does_not_balance,
    ),
    Claim(
        "sum-normalised writes land",
        "review, “drawbacks of normalization scheme”",
        "Does a balanced write also land: does its key retrieve what was written?",
        "median λ of sum normalisation above 0.9, in trained memories and under random keys",
        judge_sum_lands,
    ),
    Claim(
        "a normalisation with both criteria",
        "review, “novel normalizations competitive to the naive sum normalization”",
        "Is there a normalisation that balances and lands? NLMS on sum-normalised keys",
        f"median B and λ within {NEAR:.0%} of 1: new keys, repeated keys, random stream",
        judge_both_criteria,
    ),
    Claim(
        "normalisations beyond the training length",
        "review, “drawbacks of normalization scheme”",
        "Does attention normalisation lose what it learned on longer sequences?",
        "its loss at the longest length is more than ten times that of sum and L2 normalisation",
        judge_beyond_training,
    ),
)
