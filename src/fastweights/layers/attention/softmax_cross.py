"""Softmax attention to a source sequence: the decoder's second attention in the standard Transformer."""

import torch
from torch import nn
from typing_extensions import override

from fastweights.layers.attention.softmax import KeyValueState, attend_to, split_heads
from fastweights.layers.exact.padding import check_inputs
from fastweights.shapes import Inputs, Mask, Source, SourceMask


class SoftmaxCrossAttention(nn.Module):
    """y_i = V softmax(Kᵀ q_i / √d)  with  K, V = W s  of a source s,  with the interface of `FastWeightCrossAttention`.

    `write(source)` makes the state once; every `forward(x, state)` then reads it and leaves it as it is.
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if (key_dim is None or value_dim is None) and (num_heads < 1 or model_dim % num_heads):
            raise ValueError(f"num_heads: expected a positive divisor of model_dim {model_dim}, got {num_heads}")
        self.model_dim, self.num_heads, self.dropout = model_dim, num_heads, dropout
        self.key_dim = key_dim or model_dim // num_heads
        self.value_dim = value_dim or model_dim // num_heads
        self.source_projection = nn.Linear(model_dim, num_heads * (self.key_dim + self.value_dim), bias=False)
        self.query_projection = nn.Linear(model_dim, num_heads * self.key_dim, bias=False)
        self.output = nn.Linear(num_heads * self.value_dim, model_dim, bias=False)

    def write(self, source: Inputs, state: KeyValueState | None = None, mask: Mask | None = None) -> KeyValueState:
        """Keep the keys and values of a source sequence, or of a further piece of it."""
        check_inputs(source, mask, self.model_dim, self.source_projection)
        if mask is not None:
            # A padded step may hold anything, NaN included; zeros keep it out of products and gradients.
            source = source.masked_fill(~mask[..., None], 0.0)
        keys, values = split_heads(self.source_projection(source), self.num_heads, self.key_dim, self.value_dim)
        real = torch.ones(source.shape[:2], dtype=torch.bool, device=source.device) if mask is None else mask
        if state is not None:
            keys, values = torch.cat([state.keys, keys], dim=2), torch.cat([state.values, values], dim=2)
            real = torch.cat([state.real, real], dim=1)
        return KeyValueState(keys, values, real)

    @override
    def forward(
        self, x: Inputs, state: KeyValueState | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, KeyValueState]:
        check_inputs(x, mask, self.model_dim, self.query_projection)
        if state is None:
            raise ValueError("state: cross-attention reads a memory that `write(source)` made; got None")
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0.0)
        (queries,) = split_heads(self.query_projection(x), self.num_heads, self.key_dim)
        dropout = self.dropout if self.training else 0.0
        outputs = attend_to(queries, state, causal=False, dropout=dropout)
        return self.output(outputs.transpose(1, 2).flatten(2)), state

    def attend(
        self, x: Inputs, source: Source, mask: Mask | None = None, source_mask: SourceMask | None = None
    ) -> Inputs:
        """The outputs for whole sequences, each with its source, of which nothing is kept."""
        return self(x, self.write(source, mask=source_mask), mask)[0]
