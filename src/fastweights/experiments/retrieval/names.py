"""The models and update rules of the figures by name, and the names of others."""

from collections.abc import Callable, Mapping

from fastweights.experiments.retrieval.reads import READS, FastWeightRead, Read
from fastweights.feature_maps import DPFP, FEATURE_MAPS, EluPlusOne, Favor, FeatureMap, Tanh
from fastweights.memory import (
    NORMALISATIONS,
    AttentionNormalisation,
    CentredL2,
    L2Normalisation,
    NoNormalisation,
    Normalisation,
    SumNormalisation,
)
from fastweights.update_rules import UPDATE_RULES, DeltaRule, FastWeightMemoryRule, NormalisedStep, SumRule, UpdateRule

MODELS: dict[str, FeatureMap | None] = {
    "softmax": None,
    "elu": EluPlusOne(),
    "favor64": Favor(64),
    "favor128": Favor(128),
    "favor512": Favor(512),
    "favor64-stabilised": Favor(64, stabilised=True),
    "favor128-stabilised": Favor(128, stabilised=True),
    "favor512-stabilised": Favor(512, stabilised=True),
    "dpfp1": DPFP(1),
    "dpfp2": DPFP(2),
    "dpfp3": DPFP(3),
    "tanh": Tanh(),
}
"""Models of the figures by name: their feature map, or none for softmax attention."""

WAYS_TO_WRITE: dict[str, tuple[type[DeltaRule | NormalisedStep], Normalisation]] = {
    "delta": (DeltaRule, SumNormalisation()),
    "delta-l2": (DeltaRule, L2Normalisation()),
    "delta-centred": (DeltaRule, CentredL2()),
    "nlms": (NormalisedStep, SumNormalisation()),
}
"""Ways to write: a rule that replaces what a key retrieves, and how keys are normalised."""

STRENGTHS: dict[str, dict[str, float]] = {"": {}, "-2": {"negative": True}, "-bias": {"beta_bias": 3.0}}
"""What a name adds if β is not σ(W_β x): 2σ(W_β x), or σ(W_β x + b) with b that starts at 3."""


def _write(rule: UpdateRule, normalisation: Normalisation) -> Callable[[FeatureMap], FastWeightRead]:
    return lambda phi: FastWeightRead(phi, rule, normalisation)


RULES: dict[str, Callable[[FeatureMap], FastWeightRead]] = {
    "sum": lambda phi: FastWeightRead(phi, SumRule(), NoNormalisation(), AttentionNormalisation()),
    **{
        f"{way}{end}": _write(rule(**more), normalisation)  # type: ignore[arg-type]
        for way, (rule, normalisation) in WAYS_TO_WRITE.items()
        for end, more in STRENGTHS.items()
    },
    "schlag2021": lambda phi: FastWeightRead(phi, FastWeightMemoryRule(), NoNormalisation()),
    "schlag2021-nolayernorm": lambda phi: FastWeightRead(
        phi, FastWeightMemoryRule(layer_norm=False), NoNormalisation()
    ),
}
"""Update rules of the figures by name, each with the normalisation it goes with."""


def model_and_rule(read: Read) -> tuple[str, str] | None:
    """The names that the figures have for a model and its rule, if it is one of theirs."""
    if not isinstance(read, FastWeightRead):
        return name_in(READS, read), "none"
    model, rule = map_label(read.feature_map), _known_rule(read)
    return (model, rule) if model in MODELS and rule is not None else None


def read_label(read: Read) -> str:
    """Short name of a model: its map and rule, and its normalisation where that is not the usual one of the rule."""
    if not isinstance(read, FastWeightRead):
        return name_in(READS, read)
    if (known := _known_rule(read)) is not None:
        return f"{map_label(read.feature_map)}-{known}"
    label = f"{map_label(read.feature_map)}-{rule_label(read)}-{name_in(NORMALISATIONS, read.normalisation)}"
    return label if read.attention_normalisation is None else f"{label}-attention"


def _known_rule(read: FastWeightRead) -> str | None:
    """The name of a rule with its normalisation, if it has one."""
    return next((name for name, make in RULES.items() if make(read.feature_map) == read), None)


def rule_label(read: FastWeightRead) -> str:
    """The name of a model's rule in the figures; of one that is in none of them, the name of its kind."""
    known = [name for name, make in RULES.items() if make(read.feature_map).update_rule == read.update_rule]
    return known[0] if known else name_in(UPDATE_RULES, read.update_rule)


def map_label(feature_map: FeatureMap) -> str:
    """The name of a map in the figures; of one that is in none of them, the name of its kind."""
    known = [name for name, entry in MODELS.items() if entry == feature_map]
    if known:
        return known[0]
    return f"dpfp{feature_map.nu}" if isinstance(feature_map, DPFP) else name_in(FEATURE_MAPS, feature_map)


def name_in(registry: Mapping[str, type], value: object) -> str:
    """The name that a registry gives to a value's kind."""
    return next((name for name, kind in registry.items() if kind is type(value)), type(value).__name__)
