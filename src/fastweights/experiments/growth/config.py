"""A stream of writes as a value: everything that decides what becomes of the memory."""

from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import override

from fastweights.config import require_at_least
from fastweights.experiments.memories import memory_name
from fastweights.feature_maps import DPFP, FeatureMap
from fastweights.files import Json
from fastweights.memory import AttentionNormalisation, Normalisation, SumNormalisation
from fastweights.training.config import TrainingConfig
from fastweights.training.task import SmallTaskConfig, Task
from fastweights.update_rules import DeltaRule, UpdateRule

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class GrowthConfig(SmallTaskConfig):
    """Write `length` random values under `num_keys` random keys that recur, with a fixed write strength.

    A `state` of bfloat16 is rounded after every step, as a decoder that keeps it so does.
    """

    length: int
    feature_map: FeatureMap = DPFP(nu=1)  # noqa: RUF009  a frozen value
    update_rule: UpdateRule = DeltaRule()  # noqa: RUF009
    normalisation: Normalisation = SumNormalisation()  # noqa: RUF009
    attention_normalisation: AttentionNormalisation | None = None
    state: Precision = "float32"
    num_keys: int = 12
    key_dim: int = 16
    value_dim: int = 16
    num_heads: int = 2
    strength: float = 0.5

    def __post_init__(self) -> None:
        require_at_least(1, self, "length", "num_keys", "key_dim", "value_dim", "num_heads")
        if odd := [gate.label for gate in self.update_rule.gates if gate.label != "beta" or gate.per != "head"]:
            raise ValueError(f"update_rule: a stream has a write strength and no other gate, got {', '.join(odd)}")

    @override
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        from fastweights.experiments.growth.task import GrowthTask

        return GrowthTask(self, training)

    @property
    def memory(self) -> str:
        """The name of the memory."""
        return memory_name(self.update_rule, self.normalisation, self.attention_normalisation)

    @property
    @override
    def slug(self) -> str:
        return f"growth-{self.memory}-{self.state}"

    @override
    def check_result(self, result: Json) -> None:
        if not isinstance(result.get("stream"), dict) or "step" not in result["stream"]:
            raise ValueError("'result' has no columns 'stream'")

    @override
    def cost(self, training: TrainingConfig) -> float:
        return float(self.length * (100 if self.state == "bfloat16" else 1))


CONFIG = GrowthConfig
