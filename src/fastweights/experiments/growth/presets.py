"""The streams that have names: one for every memory that is compared."""

from dataclasses import replace

from fastweights.experiments.growth.config import GrowthConfig, Precision
from fastweights.experiments.memories import memory_named
from fastweights.training.config import TrainingConfig
from fastweights.training.run import Run

LENGTHS: dict[Precision, int] = {"float32": 1_000_000, "bfloat16": 10_000}
"""How far a stream goes; with a state that is rounded at every step it goes step by step."""
BATCH = 2


def preset(
    name: str, model: str | None = None, rule: str | None = None, state: Precision = "float32", seed: int = 1
) -> Run:
    """The stream of a memory, which `model` names; delta-sum if it is absent."""
    chosen = memory_named(model or "delta-sum", rule)
    config = GrowthConfig(
        length=LENGTHS[state],
        update_rule=chosen.rule,
        normalisation=chosen.normalisation,
        attention_normalisation=chosen.attention,
        state=state,
    )
    return Run(config, MEASURED_ONLY if seed == 1 else replace(MEASURED_ONLY, seed=seed), preset=name)


MEASURED_ONLY = TrainingConfig(
    steps=0, batch_size=BATCH, schedule="constant", warmup_steps=0, clip_norm=None, log_every=None, seed=1
)
"""Nothing is trained."""
