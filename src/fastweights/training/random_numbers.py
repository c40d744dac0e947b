"""Random numbers as functions of (seed, step, part): nothing has to be saved to go on with the same ones."""

import hashlib

import torch
from torch import nn

from fastweights.layers.feature_mapping import FeatureMapping


def seed_for(purpose: str, *numbers: int) -> int:
    """A seed that any other purpose or number makes another one."""
    text = ":".join([purpose, *map(str, numbers)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def start_training(module: nn.Module) -> None:
    """Training mode, except that random features stay as they are until `redraw_features`.

    Parts of a batch that are processed one after the other, or by other processes, then share their features, and a
    carried memory is read with those it was written with.
    """
    module.train()
    for part in module.modules():
        if isinstance(part, FeatureMapping):
            part.eval()


def redraw_features(module: nn.Module, seed: int) -> None:
    """New random features for every layer that has some."""
    generator = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, FeatureMapping):
            part.resample(generator)
