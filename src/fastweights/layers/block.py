"""One layer of a Transformer: attention and a feed-forward layer, each with a residual connection and layer norm."""

from typing import Protocol

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.layers.exact.dropout import Dropout
from fastweights.layers.exact.single_step import feed_forward_step
from fastweights.memory import LayerState
from fastweights.shapes import Inputs, Mask

MOST_LAYERS = 10_000
"""More than anybody trains; without a limit, a slip of the keyboard builds layers until the memory is full."""


class Attention(Protocol):
    """The interface that a block asks of its attention, which is a module."""

    def initial_state(
        self, batch: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
    ) -> LayerState:
        """The state before the first step of `batch` sequences."""

    def __call__(
        self, x: Inputs, state: LayerState | None, mask: Mask | None, **packing: Mask
    ) -> tuple[Inputs, LayerState]:
        """The outputs and the state after `x`; `boundaries` come only if sequences are packed."""

    def attend(self, x: Inputs, mask: Mask | None = None) -> Inputs:
        """The outputs for whole sequences, of which no state is kept."""


class Block(nn.Module):
    """post-LN: x ← LN(x + attention(x)), x ← LN(x + ffn(x));   pre-LN: x ← x + attention(LN(x)), x ← x + ffn(LN(x)).

    `attention` is any module with `forward(x, state, mask) -> (y, state)`, and `initial_state` if the block's is asked
    for. Dropout acts on the attention's output. `boundaries` of packed sequences go to an attention that takes them.
    """

    attention: Attention

    def __init__(
        self,
        model_dim: int,
        attention: nn.Module,
        feed_forward: nn.Module,
        *,
        pre_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward, self.pre_norm = attention, feed_forward, pre_norm  # type: ignore[assignment]
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(model_dim), nn.LayerNorm(model_dim)
        self.dropout = Dropout(dropout)

    def initial_state(
        self, batch: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
    ) -> LayerState:
        """The state of the attention before the first step of `batch` sequences."""
        return self.attention.initial_state(batch, dtype, device)

    @override
    def forward(
        self,
        x: Inputs,
        state: LayerState | None = None,
        mask: Mask | None = None,
        boundaries: Mask | None = None,
    ) -> tuple[Inputs, LayerState]:
        packing = {} if boundaries is None else {"boundaries": boundaries}
        read, after = self.attention(self.attention_norm(x) if self.pre_norm else x, state, mask, **packing)
        return self._finish(x, read), after

    def attend(self, x: Inputs, mask: Mask | None = None) -> Inputs:
        """The outputs for whole sequences, of which no state is kept: what an encoder is made of."""
        return self._finish(x, self.attention.attend(self.attention_norm(x) if self.pre_norm else x, mask))

    def _finish(self, x: Tensor, read: Tensor) -> Tensor:
        if x.shape[1] == 1 and (taken := feed_forward_step(self, x, read)) is not None:
            return taken
        if self.pre_norm:
            x = x + self.dropout(read)
            return x + self.feed_forward(self.feed_forward_norm(x))
        x = self.attention_norm(x + self.dropout(read))
        return self.feed_forward_norm(x + self.feed_forward(x))
