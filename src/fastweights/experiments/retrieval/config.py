"""The retrieval task as a value: everything about it that decides the numbers of a run (Sec. 6.1, App. C)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from fastweights.data.retrieval import RetrievalProblem, Setting
from fastweights.experiments.retrieval.evaluation import AS_WRITTEN, PROTOCOLS, EvaluationProtocol
from fastweights.experiments.retrieval.names import read_label
from fastweights.experiments.retrieval.reads import READS, FastWeightRead, Read
from fastweights.training.config import TrainingConfig
from fastweights.training.task import SmallTaskConfig, Task
from fastweights.update_rules import LinearRule


@dataclass(frozen=True)
class RetrievalConfig(SmallTaskConfig):
    """Write pairs of S keys and values, read with one key; `protocol` is the evaluation that decides when to stop."""

    setting: Setting
    num_keys: int
    attention: Read
    key_dim: int = 64
    protocol: EvaluationProtocol = AS_WRITTEN

    moved: ClassVar[Mapping[str, str]] = {
        **{name: f"task.{name}" for name in ("setting", "num_keys", "attention", "key_dim", "protocol")},
        **{name: f"training.{name}" for name in ("learning_rate", "batch_size", "seed", "evaluate_every")},
        "max_steps": "training.steps",
        "stop_loss": "stopping.target",
        "patience": "stopping.patience",
    }
    implied: ClassVar[Mapping[str, Any]] = {
        "training.schedule": "constant",
        "training.warmup_steps": 0,
        "training.clip_norm": None,
        "training.log_every": None,
    }

    def __post_init__(self) -> None:
        RetrievalProblem(self.setting, self.num_keys)
        if self.key_dim < 1:
            raise ValueError(f"key_dim: must be an integer of at least 1, got {self.key_dim}")
        if isinstance(self.attention, FastWeightRead):
            self.attention.feature_map.feature_dim(self.key_dim)

    @override
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        from fastweights.experiments.retrieval.task import RetrievalTask

        return RetrievalTask(self, training)

    @property
    @override
    def slug(self) -> str:
        """Such as capacity-dpfp1-sum-S100."""
        parts = [self.setting, read_label(self.attention), f"S{self.num_keys}"]
        if self.key_dim != 64:
            parts.append(f"d{self.key_dim}")
        if self.protocol != AS_WRITTEN:
            parts += [name for name, protocol in PROTOCOLS.items() if protocol == self.protocol] or ["custom"]
        return "-".join(parts)

    @override
    def cost(self, training: TrainingConfig) -> float:
        length = RetrievalProblem(self.setting, self.num_keys).length
        if not isinstance(self.attention, FastWeightRead):
            return float(training.batch_size * length * (self.key_dim + 200))
        features = self.attention.feature_map.feature_dim(self.key_dim)
        # Rules that are not linear run step by step.
        slowness = 1 if isinstance(self.attention.update_rule, LinearRule) else 40
        return float(training.batch_size * length * (features + 200) * slowness)


CONFIG = RetrievalConfig
REGISTRIES = {Read: READS}
CONSTANTS = {EvaluationProtocol: PROTOCOLS}
