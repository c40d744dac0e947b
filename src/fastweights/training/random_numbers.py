"""Random numbers as functions of (seed, step, part): a resumed run draws the same ones without saving anything."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from fastweights.layers.exact.dropout import Dropout
from fastweights.layers.feature_projection import FeatureProjection


def seed_for(purpose: str, *numbers: int) -> int:
    """Derive a seed from a purpose and integers; different arguments give unrelated seeds."""
    text = ":".join([purpose, *map(str, numbers)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def start_training(module: nn.Module) -> None:
    """Training mode, except that random features stay as they are until `RandomFeatures.redraw`.

    Parts of a batch that are processed one after the other, or by other processes, then share their features, and a
    carried memory is read with those it was written with.
    """
    module.train()
    for part in module.modules():
        if isinstance(part, FeatureProjection):
            part.eval()


class RandomFeatures:
    """Random features that belong to a step; the layers that have some are looked up once."""

    def __init__(self, module: nn.Module) -> None:
        self.layers = [part for part in module.modules() if isinstance(part, FeatureProjection)]

    def redraw(self, seed: int, step: int) -> None:
        """Draw new random features for every layer that has some."""
        if self.layers:
            generator = torch.Generator().manual_seed(seed_for("features", seed, step))
            for layer in self.layers:
                layer.resample(generator)


class DropoutMasks:
    """Dropout masks that belong to rows of the batch, however it is shared by processes and parts."""

    def __init__(self, module: nn.Module) -> None:
        self.layers = [part for part in module.modules() if isinstance(part, Dropout)]

    @contextmanager
    def of_rows(self, rows: Sequence[int], *numbers: int) -> Iterator[None]:
        """Inside, dropout draws the mask of each row from a seed made of these numbers and the row's own.

        On a GPU, where a generator for each row would be slow, the masks of all rows follow from the seed of the first.
        """
        if not self.layers:
            yield
            return
        seeds = [seed_for("dropout", *numbers, row) for row in rows]
        torch.manual_seed(seeds[0])
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        for layer in self.layers:
            layer.generators = generators
        try:
            yield
        finally:
            for layer in self.layers:
                layer.generators = None
