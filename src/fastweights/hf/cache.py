"""The states of a model's layers as a Hugging Face cache.

The stock caches hold keys and values that grow along the sequence. Here each layer holds its state, which can be
reordered, repeated and selected from, but not cropped to an earlier step.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import Cache
from typing_extensions import override

from fastweights.memory import LayerState


class StateLayer:
    """One layer of the cache: a state, and how many positions (padding included) went into it."""

    is_compileable = False
    is_sliding = False
    is_croppable = False
    supports_early_init = False
    is_initialized = True

    def __init__(self) -> None:
        self.state: LayerState | None = None
        self.seen = 0

    def get_seq_length(self) -> int:
        return self.seen

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.seen + query_length, 0

    def reset(self) -> None:
        self.state, self.seen = None, 0

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.state is not None:
            self.state = self.state.reorder(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        if self.state is not None:
            self.state = self.state.select(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.state is not None:
            batch = self.state.steps.shape[0]
            self.state = self.state.reorder(torch.arange(batch).repeat_interleave(repeats))

    def crop(self, tokens_to_remove: int) -> None:
        raise ValueError("a fast-weight memory cannot go back to an earlier step; keep a clone of the state instead")


class FastWeightCache(Cache):
    """One `StateLayer` for each layer of the model."""

    def __init__(self, num_layers: int) -> None:
        self.state_layers = [StateLayer() for _ in range(num_layers)]
        super().__init__(layers=self.state_layers)  # type: ignore[arg-type]

    @property
    def states(self) -> list[LayerState] | None:
        """The states of all layers, or None before the first step."""
        states = [layer.state for layer in self.state_layers if layer.state is not None]
        return states if len(states) == len(self.state_layers) else None

    def store(self, states: Sequence[LayerState], steps: int) -> None:
        """Keep the states after `steps` further positions."""
        for layer, state in zip(self.state_layers, states, strict=True):
            layer.state = state
            layer.seen += steps

    @override
    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.state_layers[layer_idx].seen if layer_idx < len(self.state_layers) else 0

    @override
    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self.get_seq_length(layer_idx) + query_length, 0

    @override
    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1
