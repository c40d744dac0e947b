"""The trained memories that are compared."""

from fastweights.experiments.contrast.config import ContrastConfig
from fastweights.experiments.memories import memory_named
from fastweights.experiments.retrieval.presets import STOPPING, training
from fastweights.experiments.retrieval.reads import FastWeightRead
from fastweights.feature_maps import DPFP
from fastweights.training.run import Run


def preset(name: str, model: str | None = None, rule: str | None = None, seed: int = 1) -> Run:
    """A memory with DPFP-1, which `model` names; delta-sum if it is absent."""
    chosen = memory_named(model or "delta-sum", rule)
    read = FastWeightRead(DPFP(1), chosen.rule, chosen.normalisation, chosen.attention)
    return Run(ContrastConfig(read), training(seed), STOPPING, preset=name)
