"""Gradient checkpointing: less memory in training, for more time."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint


class CheckpointedModel(nn.Module):
    """A model whose layers may forget in training what they computed, and compute it again for the gradient.

    transformers switches it on and off under these two names, and may bring a function of its own.
    """

    gradient_checkpointing: bool = False
    _gradient_checkpointing_func: Callable[..., Any] = staticmethod(partial(checkpoint, use_reentrant=False))

    def through(self, layer: Callable[..., Any], *inputs: Any) -> Any:
        """layer(*inputs)."""
        if self.gradient_checkpointing and self.training:
            return self._gradient_checkpointing_func(layer, *inputs)
        return layer(*inputs)
