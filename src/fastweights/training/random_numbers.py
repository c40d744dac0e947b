"""Random numbers as functions of (seed, step, part): nothing has to be saved to go on with the same ones."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from fastweights.layers.exact.dropout import Dropout
from fastweights.layers.feature_projection import FeatureProjection


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
        if isinstance(part, FeatureProjection):
            part.eval()


def redraw_features(module: nn.Module, seed: int) -> None:
    """New random features for every layer that has some."""
    generator = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, FeatureProjection):
            part.resample(generator)


@contextmanager
def dropout_of_rows(module: nn.Module, seeds: Sequence[int]) -> Iterator[None]:
    """Inside, dropout draws what belongs to a row of the batch from that row's seed.

    How a batch is shared by processes and parts then changes no mask. On a GPU, where a generator for each row would be
    slow, the masks of all rows follow from the seed of the first.
    """
    torch.manual_seed(seeds[0])
    layers = [part for part in module.modules() if isinstance(part, Dropout)]
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for layer in layers:
        layer.generators = generators
    try:
        yield
    finally:
        for layer in layers:
            layer.generators = None
