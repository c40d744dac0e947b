"""The trained memories that are compared."""

from fastweights.config import unknown
from fastweights.experiments.contrast.config import ContrastConfig
from fastweights.experiments.memories import MEMORIES
from fastweights.experiments.retrieval.presets import STOPPING, training
from fastweights.experiments.retrieval.reads import FastWeightRead
from fastweights.feature_maps import DPFP
from fastweights.training.run import Run


def preset(name: str, model: str | None = None, rule: str | None = None, seed: int = 1) -> Run:
    """A memory with DPFP-1, which `model` names; delta-sum if it is absent."""
    memory = model or "delta-sum"
    if memory not in MEMORIES:
        raise ValueError(f"model: {unknown('name', memory, MEMORIES)}")
    if rule is not None:
        raise ValueError(f"rule: the name of the memory says it, got {rule!r}")
    chosen = MEMORIES[memory]
    read = FastWeightRead(DPFP(1), chosen.rule, chosen.normalisation, chosen.attention)
    return Run(ContrastConfig(read), training(seed), STOPPING, preset=name)
