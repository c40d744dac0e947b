"""One layer of a decoder: self-attention, attention to the source, feed-forward (Vaswani et al., 2017)."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.layers.block import Attention
from fastweights.layers.exact.dropout import Dropout
from fastweights.memory import LayerState
from fastweights.shapes import Inputs, Mask, Source, SourceMask


class CrossAttention(Protocol):
    """What a decoder block asks of its attention to the source, which is a module."""

    def write(self, source: Inputs, state: LayerState | None = None, mask: Mask | None = None) -> LayerState:
        """The memory of a source sequence, or of a further piece of it."""

    def __call__(self, x: Inputs, state: LayerState | None, mask: Mask | None = None) -> tuple[Inputs, LayerState]:
        """What `x` reads from the memory, which stays as it is."""

    def attend(
        self, x: Inputs, source: Source, mask: Mask | None = None, source_mask: SourceMask | None = None
    ) -> Inputs:
        """What `x` reads from the memory of a source that nobody reads again."""


class DecoderBlock(nn.Module):
    """post-LN: x ← LN(x + self(x)), x ← LN(x + cross(x, source)), x ← LN(x + ffn(x));   pre-LN: x ← x + f(LN(x)).

    `forward` goes on from a state and reads a memory that `write` made of the source; `attend` takes whole sequences
    and keeps nothing. Where x has n times the rows of the memory, n rows after each other share one source.
    """

    self_attention: Attention
    cross_attention: CrossAttention

    def __init__(
        self,
        model_dim: int,
        self_attention: nn.Module,
        cross_attention: nn.Module,
        feed_forward: nn.Module,
        *,
        pre_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = self_attention, cross_attention  # type: ignore[assignment]
        self.feed_forward, self.pre_norm = feed_forward, pre_norm
        self.self_norm, self.cross_norm, self.feed_forward_norm = (nn.LayerNorm(model_dim) for _ in range(3))
        self.dropout = Dropout(dropout)

    def initial_state(
        self, batch: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
    ) -> LayerState:
        """The state of the self-attention before the first step of `batch` sequences."""
        return self.self_attention.initial_state(batch, dtype, device)

    def write(self, source: Inputs, state: LayerState | None = None, mask: Mask | None = None) -> LayerState:
        """The memory of a source sequence, or of a further piece of it, for `forward`."""
        return self.cross_attention.write(source, state, mask)

    @override
    def forward(
        self, x: Inputs, memory: LayerState, state: LayerState | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, LayerState]:
        after: list[LayerState] = []

        def read_past(y: Tensor) -> Tensor:
            read, state_after = self.self_attention(y, state, mask)
            after.append(state_after)
            return read

        def read_source(y: Tensor) -> Tensor:
            # Rows that share a source are further queries to the same memory.
            rows = memory.steps.shape[0]
            grouped = y.unflatten(0, (rows, -1)).flatten(1, 2)
            real = None if mask is None else mask.unflatten(0, (rows, -1)).flatten(1, 2)
            return self.cross_attention(grouped, memory, real)[0].reshape(y.shape)

        return self._run(x, read_past, read_source), after[0]

    def attend(
        self, x: Inputs, source: Source, mask: Mask | None = None, source_mask: SourceMask | None = None
    ) -> Inputs:
        """The outputs for whole sequences, from the start."""
        return self._run(
            x,
            lambda y: self.self_attention.attend(y, mask),
            lambda y: self.cross_attention.attend(y, source, mask, source_mask),
        )

    def _run(self, x: Tensor, read_past: Callable[[Tensor], Tensor], read_source: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre_norm:
            x = x + self.dropout(read_past(self.self_norm(x)))
            x = x + self.dropout(read_source(self.cross_norm(x)))
            return x + self.feed_forward(self.feed_forward_norm(x))
        x = self.self_norm(x + self.dropout(read_past(x)))
        x = self.cross_norm(x + self.dropout(read_source(x)))
        return self.feed_forward_norm(x + self.feed_forward(x))
