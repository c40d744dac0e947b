"""One run of the synthetic experiments as a value: everything that decides its numbers (Sec. 6.1, App. C)."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastweights.data.retrieval import RetrievalTask, Setting
from fastweights.experiments.retrieval.evaluation import PUBLISHED, TEXT, EvaluationProtocol
from fastweights.feature_maps import DPFP, FEATURE_MAPS, EluPlusOne, Favor, FeatureMap, Tanh
from fastweights.memory import NORMALISATIONS, NoNormalisation, SumNormalisation
from fastweights.experiments.retrieval.model import ATTENTIONS, Attention, FastWeightRead, SoftmaxRead
from fastweights.update_rules import UPDATE_RULES, DeltaRule, FastWeightMemoryRule, SumRule
from fastweights.config import TABLES, Codec

CODEC = Codec({**TABLES, Attention: ATTENTIONS})
"""Runs as plain JSON and back."""

PROTOCOLS: dict[str, EvaluationProtocol] = {"text": TEXT, "published": PUBLISHED}


@dataclass(frozen=True)
class RetrievalRun:
    """Train one model on one task with Adam until it is solved or makes no progress.

    Every `evaluate_every` steps the model is evaluated. Training ends at a loss of `stop_loss` or below, after
    `patience` evaluations in a row without a new minimum, or after `max_steps`.
    """

    setting: Setting
    num_keys: int
    attention: Attention
    key_dim: int = 64
    learning_rate: float = 1e-3
    batch_size: int = 32
    seed: int = 1
    evaluate_every: int = 100
    patience: int = 11
    stop_loss: float = 0.001
    max_steps: int = 100_000
    protocol: EvaluationProtocol = TEXT

    def __post_init__(self) -> None:
        RetrievalTask(self.setting, self.num_keys)
        for name, least in (
            ("key_dim", 1),
            ("batch_size", 1),
            ("seed", 0),
            ("evaluate_every", 1),
            ("patience", 1),
            ("max_steps", 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}: must be an integer of at least {least}, got {value!r}")
        for name in ("learning_rate", "stop_loss"):
            value = getattr(self, name)
            if not isinstance(value, float) or not math.isfinite(value) or value < 0:
                raise ValueError(f"{name}: must be a finite number of at least 0, got {value!r}")
        if not isinstance(self.attention, Attention):
            raise ValueError(f"attention: must be SoftmaxRead or FastWeightRead, got {self.attention!r}")
        if isinstance(self.attention, FastWeightRead):
            self.attention.feature_map.feature_dim(self.key_dim)

    @property
    def task(self) -> RetrievalTask:
        """What is learnt."""
        return RetrievalTask(self.setting, self.num_keys)

    def to_dict(self) -> dict[str, Any]:
        """The run as plain JSON values."""
        plain: dict[str, Any] = CODEC.to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> "RetrievalRun":
        """The run of such values; a ValueError names what does not fit and what is possible."""
        return CODEC.from_plain(cls, plain)

    @property
    def slug(self) -> str:
        """A readable name, such as capacity-dpfp1-sum-S100-seed1; runs that differ in rarer ways may share it."""
        parts = [self.setting, attention_label(self.attention), f"S{self.num_keys}"]
        if self.key_dim != 64:
            parts.append(f"d{self.key_dim}")
        if self.protocol != TEXT:
            named = [name for name, protocol in PROTOCOLS.items() if protocol == self.protocol]
            parts += named or ["custom"]
        return "-".join([*parts, f"seed{self.seed}"])

    @property
    def digest(self) -> str:
        """12 hexadecimal digits that differ for any other run."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def attention_label(attention: Attention) -> str:
    """Short name of a model: its map and rule, and its normalisation where that is not the usual one of the rule."""
    if not isinstance(attention, FastWeightRead):
        return name_in(ATTENTIONS, attention)
    rule = attention.update_rule
    rules = [name for name, make in RULES.items() if make(attention.feature_map).update_rule == rule]
    label = f"{map_label(attention.feature_map)}-{rules[0] if rules else name_in(UPDATE_RULES, rule)}"
    if rules and RULES[rules[0]](attention.feature_map) == attention:
        return label
    label += f"-{name_in(NORMALISATIONS, attention.normalisation)}"
    return label + ("-attention" if attention.attention_normalisation else "")


def name_in(table: Mapping[str, type], value: object) -> str:
    """The name that a table gives to a value's kind."""
    return next((name for name, kind in table.items() if kind is type(value)), type(value).__name__)


def map_label(feature_map: FeatureMap) -> str:
    """The name of a map in the figures; of one that is in none of them, the name of its kind."""
    named = [name for name, entry in MODELS.items() if entry == feature_map]
    if named:
        return named[0]
    if isinstance(feature_map, DPFP):
        return f"dpfp{feature_map.nu}"
    return name_in(FEATURE_MAPS, feature_map)


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

RULES: dict[str, Callable[[FeatureMap], FastWeightRead]] = {
    "sum": lambda phi: FastWeightRead(phi, SumRule(), NoNormalisation(), attention_normalisation=True),
    "delta": lambda phi: FastWeightRead(phi, DeltaRule(), SumNormalisation()),
    "schlag2021": lambda phi: FastWeightRead(phi, FastWeightMemoryRule(), NoNormalisation()),
    "schlag2021-nolayernorm": lambda phi: FastWeightRead(
        phi, FastWeightMemoryRule(layer_norm=False), NoNormalisation()
    ),
}
"""Update rules of the figures by name, each with the normalisation it goes with."""


def preset(
    setting: Setting,
    model: str,
    rule: str | None,
    num_keys: int,
    seed: int = 1,
    protocol: EvaluationProtocol = TEXT,
) -> RetrievalRun:
    """A run of the paper's figures. Softmax attention has no update rule; whatever is given for it is not used."""
    if model not in MODELS:
        raise ValueError(f"model: must be one of {', '.join(MODELS)}, got {model!r}")
    feature_map = MODELS[model]
    if feature_map is None:
        return RetrievalRun(setting, num_keys, SoftmaxRead(), seed=seed, protocol=protocol)
    if rule is None or rule not in RULES:
        raise ValueError(f"rule: must be one of {', '.join(RULES)}, got {rule!r}")
    attention = RULES[rule](feature_map)
    if model == "tanh" and isinstance(attention.update_rule, FastWeightMemoryRule):
        return RetrievalRun(
            setting, num_keys, attention, learning_rate=1e-4, batch_size=128, seed=seed, protocol=protocol
        )
    return RetrievalRun(setting, num_keys, attention, seed=seed, protocol=protocol)
