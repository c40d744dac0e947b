"""Fast weights where a model expects `nn.MultiheadAttention`: the same call, its masks and its layouts."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from typing_extensions import override

from fastweights.layers.attention.cross import FastWeightCrossAttention
from fastweights.layers.attention.fast_weight import FastWeightAttention
from fastweights.layers.exact.padding import is_readable

Sequence = Float[Tensor, "_ _ model"]
"""Time first, or batch first."""


class MultiheadFastWeights(nn.Module):
    """Takes the arguments of `nn.MultiheadAttention`; there are no attention weights to return or to drop.

    `cross=True` is for a source that other sequences read. `options` are those of `FastWeightAttention` or
    `FastWeightCrossAttention`. Padding is true in `key_padding_mask`, as there, or -inf in one of floats. A mask whose
    values have another meaning is refused; under torch.compile, torch.export and torch.func and on the meta device
    values cannot be looked at, and `attn_mask` counts as causal.
    """

    # What nn.TransformerEncoderLayer looks at before it takes a shortcut of its own: it must not.
    in_proj_bias = None
    _qkv_same_embed_dim = True

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        batch_first: bool = False,
        causal: bool = False,
        cross: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        if cross and causal:
            raise ValueError("causal: a source is written before it is read; cross-attention cannot be causal")
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        self.causal, self.cross = causal, cross
        self.memory = (
            FastWeightCrossAttention(embed_dim, num_heads, **options)
            if cross
            else FastWeightAttention(embed_dim, num_heads, causal=causal, **options)
        )

    @override
    def forward(
        self,
        query: Sequence,
        key: Sequence,
        value: Sequence,
        key_padding_mask: Bool[Tensor, "b s"] | Float[Tensor, "b s"] | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Sequence, None]:
        """What queries read from a memory of the keys and values, which must be one sequence."""
        self._check(query, key, value, need_weights, attn_mask, is_causal)
        x, source = (t if self.batch_first else t.transpose(0, 1) for t in (query, key))
        mask = _real_steps(key_padding_mask)
        if isinstance(self.memory, FastWeightCrossAttention):
            y = self.memory.attend(x, source, source_mask=mask)
        else:
            y = self.memory.attend(x, mask)
        return (y if self.batch_first else y.transpose(0, 1)), None

    def _check(
        self, query: Tensor, key: Tensor, value: Tensor, need_weights: bool, mask: Tensor | None, is_causal: bool
    ) -> None:
        if need_weights:
            raise ValueError("need_weights: a memory keeps no attention weights; possible: need_weights=False")
        if key is not value or (query is not key) != self.cross:
            expected = "key and value the same source" if self.cross else "query, key and value the same sequence"
            raise ValueError(f"expected {expected}; possible: cross={not self.cross} for the other kind of attention")
        if mask is None and not is_causal:
            if self.causal:
                raise ValueError("is_causal: this layer is causal; say so with is_causal=True or a causal attn_mask")
            return
        steps = query.shape[1 if self.batch_first else 0]
        if not self.causal or (mask is not None and not _is_causal(mask, steps)):
            raise ValueError("attn_mask: only a causal mask has an effect, in a layer with causal=True")


def _real_steps(padding: Tensor | None) -> Tensor | None:
    """True for real steps; a float mask has -inf in padded ones, as nn.TransformerEncoderLayer makes it."""
    if padding is None:
        return None
    if padding.dtype == torch.bool:
        return ~padding
    real = padding == 0
    if is_readable(padding) and not bool((real | (padding == -torch.inf)).all()):
        raise ValueError(
            "key_padding_mask: expected 0 for real steps and -inf for padded ones, got other numbers; possible: these, "
            "or a bool tensor that is true for padded steps"
        )
    return real


def _is_causal(mask: Tensor, steps: int) -> bool:
    if mask.shape != (steps, steps):
        return False
    if not is_readable(mask):
        return True
    hidden = mask if mask.dtype == torch.bool else mask == -torch.inf
    return bool((hidden == torch.ones_like(hidden).triu(1)).all())
