"""Measuring a stream: nothing is trained, the keys are drawn once."""

import time
from pathlib import Path

import torch
from torch import nn
from typing_extensions import override

from fastweights.data.retrieval import FEATURES, INITIALISATION, torch_generator
from fastweights.experiments.growth.config import GrowthConfig
from fastweights.experiments.growth.stream import run_stream
from fastweights.feature_maps.base import RandomFeatureMap
from fastweights.files import Json
from fastweights.layers.feature_projection import FeatureProjection
from fastweights.runs.display import Display
from fastweights.runs.record import rounded
from fastweights.shapes import Keys
from fastweights.training.config import TrainingConfig
from fastweights.training.task import Measurement


class KeyTable(nn.Module):
    """The keys of a stream, before the feature map: `b h n d`, N(0, 1)."""

    def __init__(self, config: GrowthConfig, batch: int, generator: torch.Generator) -> None:
        super().__init__()
        shape = (batch, config.num_heads, config.num_keys, config.key_dim)
        self.keys = nn.Parameter(torch.randn(*shape, generator=generator))


class GrowthTask(Measurement):
    """Write a stream and look at the memory after 1, 2, 3, 6, 10, … steps."""

    unit = "step"

    def __init__(self, config: GrowthConfig, training: TrainingConfig) -> None:
        self.config, self.training = config, training

    @override
    def build(self) -> KeyTable:
        return KeyTable(self.config, self.training.batch_size, torch_generator(self.training.seed, INITIALISATION))

    @override
    def measure(self, folder: Path, device: torch.device, display: Display) -> Json:
        started = time.monotonic()
        columns = run_stream(self.config, self._mapped_keys(), self.training.seed)
        plain = {name: [rounded(x) for x in column] for name, column in columns.items()}
        return {"stream": plain, "seconds": round(time.monotonic() - started, 3)}

    @torch.no_grad()
    def _mapped_keys(self) -> Keys:
        feature_map = self.config.feature_map
        mapping = FeatureProjection(self.config.key_dim, feature_map, self.config.normalisation)
        if isinstance(feature_map, RandomFeatureMap):
            mapping.resample(torch_generator(self.training.seed, FEATURES))
        keys, log_scales = mapping(self.build().keys)
        if log_scales is not None:
            raise ValueError(f"feature_map: {feature_map} keeps the scale of keys apart, which a stream does not")
        return keys
