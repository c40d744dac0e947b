"""The states of a translator's decoder and the memories of its sources as one Hugging Face cache."""

from collections.abc import Sequence

from torch import Tensor
from typing_extensions import override

from fastweights.hf.cache import FastWeightCache, StateLayer
from fastweights.memory import LayerState


class TranslationCache(FastWeightCache):
    """One `StateLayer` for the state and one for the source memory of each decoder layer.

    The hypotheses of a beam search share the memory of their source: there may be n rows of states, one after the
    other, for each row of memories. They never leave their source, so reordering them leaves the memories alone.
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__(num_layers)
        self.memory_layers = [StateLayer() for _ in range(num_layers)]

    @property
    def memories(self) -> list[LayerState] | None:
        """The memories of the sources, or None before they are written."""
        memories = [layer.state for layer in self.memory_layers if layer.state is not None]
        return memories if len(memories) == len(self.memory_layers) else None

    def store_memories(self, memories: Sequence[LayerState]) -> None:
        """Keep the memories that every further step reads."""
        for layer, memory in zip(self.memory_layers, memories, strict=True):
            layer.state = memory

    @override
    def reset(self) -> None:
        for layer in (*self.state_layers, *self.memory_layers):
            layer.reset()

    @override
    def batch_select_indices(self, indices: Tensor) -> None:
        for states, memories in zip(self.state_layers, self.memory_layers, strict=True):
            if states.state is not None and memories.state is not None:
                # A row that stays needs the memory of its own, wherever the rows beside it went.
                memories.batch_repeat_interleave(states.state.steps.shape[0] // memories.state.steps.shape[0])
            states.batch_select_indices(indices)
            memories.batch_select_indices(indices)

    @override
    def batch_repeat_interleave(self, repeats: int) -> None:
        for layer in self.state_layers:
            layer.batch_repeat_interleave(repeats)
        if self.states is None:
            for layer in self.memory_layers:
                layer.batch_repeat_interleave(repeats)
