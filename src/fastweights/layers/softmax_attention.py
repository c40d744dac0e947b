"""Causal softmax attention, the standard Transformer (Sec. 3.1, Eqs. 4-7): a memory that grows by a pair per step."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from typing_extensions import override

from fastweights.layers.padding import check_inputs
from fastweights.shapes import Inputs, Mask, Steps


@dataclass(frozen=True, eq=False)
class KeyValueState:
    """K and V of all steps so far (Eqs. 5-6), and which of them are real."""

    keys: Float[Tensor, "b h s d"]
    values: Float[Tensor, "b h s v"]
    real: Bool[Tensor, "b s"]

    @property
    def steps(self) -> Steps:
        """How many real steps each sequence has seen."""
        return self.real.sum(dim=1)

    def detach(self) -> "KeyValueState":
        """The same state, cut off from the graph."""
        return self._map(Tensor.detach)

    def clone(self) -> "KeyValueState":
        """A copy with storage of its own."""
        return self._map(Tensor.clone)

    def select(self, rows: Tensor) -> "KeyValueState":
        """The states of some sequences of the batch, by index or by boolean mask."""
        return self._map(lambda x: x[rows.to(x.device)])

    def reorder(self, rows: Tensor) -> "KeyValueState":
        """Row i of the result is row `rows[i]`: what beam search does to its hypotheses."""
        return self._map(lambda x: x.index_select(0, rows.to(x.device)))

    def _map(self, function: Callable[[Tensor], Tensor]) -> "KeyValueState":
        return KeyValueState(function(self.keys), function(self.values), function(self.real))


class SoftmaxAttention(nn.Module):
    """y_i = V_i softmax(K_iᵀ q_i / √d), for several heads, with the same interface as `FastWeightAttention`."""

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        causal: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if (key_dim is None or value_dim is None) and (num_heads < 1 or model_dim % num_heads):
            raise ValueError(f"num_heads: expected a positive divisor of model_dim {model_dim}, got {num_heads}")
        self.model_dim, self.num_heads, self.causal, self.dropout = model_dim, num_heads, causal, dropout
        self.key_dim = key_dim or model_dim // num_heads
        self.value_dim = value_dim or model_dim // num_heads
        self.projection = nn.Linear(model_dim, num_heads * (2 * self.key_dim + self.value_dim), bias=False)
        self.output = nn.Linear(num_heads * self.value_dim, model_dim, bias=False)

    @override
    def forward(
        self, x: Inputs, state: KeyValueState | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, KeyValueState]:
        check_inputs(x, mask, self.model_dim)
        if mask is not None:
            # What stands in a padded step, NaN included, must reach no product or gradient.
            x = x.masked_fill(~mask[..., None], 0.0)
        dims = [self.num_heads * dim for dim in (self.key_dim, self.key_dim, self.value_dim)]
        queries, keys, values = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.projection(x).split(dims, dim=-1)
        )
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        if state is not None:
            keys, values = torch.cat([state.keys, keys], dim=2), torch.cat([state.values, values], dim=2)
            real = torch.cat([state.real, real], dim=1)
        after = KeyValueState(keys, values, real)
        dropout = self.dropout if self.training else 0.0
        if state is None and mask is None:
            reads = scaled_dot_product_attention(queries, keys, values, dropout_p=dropout, is_causal=self.causal)
        else:
            reads = self._attend(queries, after, dropout)
        return self.output(reads.transpose(1, 2).flatten(2)), after

    def _attend(self, queries: Tensor, state: KeyValueState, dropout: float) -> Tensor:
        """Attention to the real steps so far; a query with nothing to attend to reads zero."""
        steps, total = queries.shape[2], state.keys.shape[2]
        allowed = state.real[:, None, None, :]
        if self.causal:
            visible = torch.ones(steps, total, dtype=torch.bool, device=queries.device).tril(total - steps)
            allowed = allowed & visible
        empty = ~allowed.any(dim=-1, keepdim=True)
        reads = scaled_dot_product_attention(
            queries, state.keys, state.values, attn_mask=allowed | empty, dropout_p=dropout
        )
        return reads.masked_fill(empty, 0.0)
