"""The attentions that recall, question answering and images compare, by name: rules and normalisations of one memory.

All fast-weight memories here have DPFP-1 keys and the same number of weights; "signed" ones have keys as they are.
"""

from fastweights.config import unknown
from fastweights.feature_maps import DPFP, FeatureMap, Identity
from fastweights.memory import (
    AttentionNormalisation,
    CentredL2,
    L2Normalisation,
    NoNormalisation,
    Normalisation,
    SumNormalisation,
)
from fastweights.models.attention import AttentionConfig, FastWeightAttentionConfig, SoftmaxAttentionConfig
from fastweights.training.config import TrainingConfig
from fastweights.update_rules import (
    DeltaProductRule,
    DeltaRule,
    GatedDeltaRule,
    KimiDeltaRule,
    NormalisedStep,
    SumRule,
    UpdateRule,
)


def _memory(
    rule: UpdateRule,
    normalisation: Normalisation,
    feature_map: FeatureMap = DPFP(1),  # noqa: B008  a frozen value
    attention_normalisation: AttentionNormalisation | None = None,
) -> FastWeightAttentionConfig:
    """A memory whose reads go on as they are: the blocks have norms of their own."""
    return FastWeightAttentionConfig(feature_map, rule, normalisation, attention_normalisation, read_scale=1.0)


CONTENDERS: dict[str, AttentionConfig] = {
    "softmax": SoftmaxAttentionConfig(),
    "sum": _memory(SumRule(), NoNormalisation(), attention_normalisation=AttentionNormalisation()),
    "delta-attention": _memory(DeltaRule(), NoNormalisation(), attention_normalisation=AttentionNormalisation()),
    "delta": _memory(DeltaRule(), SumNormalisation()),
    "delta-l2": _memory(DeltaRule(), L2Normalisation()),
    "delta-centred": _memory(DeltaRule(), CentredL2()),
    "nlms": _memory(NormalisedStep(), SumNormalisation()),
    "gated-delta": _memory(GatedDeltaRule(), L2Normalisation()),
    "kimi-delta": _memory(KimiDeltaRule(), L2Normalisation()),
    "signed-delta": _memory(DeltaRule(), L2Normalisation(), Identity()),
    "signed-delta-2": _memory(DeltaRule(negative=True), L2Normalisation(), Identity()),
    **{f"product{n}": _memory(DeltaProductRule(n), L2Normalisation(), Identity()) for n in (2, 3, 4)},
}
"""`delta` is the paper's choice, sum-normalised; `-2` has β in (0, 2); `product` n writes per step, β in (0, 2)."""


def contender(name: str, task: str, rule: str | None) -> AttentionConfig:
    """The attention of this name, which says its rule; a ValueError lists the names there are."""
    if rule is not None:
        raise ValueError(f"rule: the models of {task} name their rule, as in --model delta-l2; got {rule!r}")
    if name not in CONTENDERS:
        raise ValueError(f"model: {unknown('name', name, CONTENDERS)}")
    return CONTENDERS[name]


def training(steps: int, batch_size: int, learning_rate: float, evaluate_every: int, seed: int) -> TrainingConfig:
    """What the trainings of these models have in common: a short warm-up, then a cosine."""
    return TrainingConfig(
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        warmup_steps=50,
        clip_norm=1.0,
        log_every=None,
        evaluate_every=evaluate_every,
        seed=seed,
    )
