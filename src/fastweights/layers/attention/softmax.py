"""Causal softmax attention, the standard Transformer (Sec. 3.1, Eqs. 4-7): a memory that grows by a pair per step."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from typing_extensions import override

from fastweights.layers.exact.padding import check_inputs, without_padding
from fastweights.memory import LayerState
from fastweights.shapes import Inputs, Mask, Steps


@dataclass(frozen=True, eq=False)
class KeyValueState(LayerState):
    """K and V of all steps so far (Eqs. 5-6), and which of them are real."""

    grows: ClassVar[bool] = True

    keys: Float[Tensor, "b h s d"]
    values: Float[Tensor, "b h s v"]
    real: Bool[Tensor, "b s"]

    @property
    @override
    def steps(self) -> Steps:
        """How many real steps each sequence has seen."""
        return self.real.sum(dim=1)


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

    def initial_state(
        self, batch: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
    ) -> KeyValueState:
        """No keys and no values for `batch` sequences of inputs of type `dtype`."""
        keys = torch.zeros(batch, self.num_heads, 0, self.key_dim, dtype=dtype, device=device)
        values = keys.new_zeros(batch, self.num_heads, 0, self.value_dim)
        return KeyValueState(keys, values, torch.zeros(batch, 0, dtype=torch.bool, device=device))

    @override
    def forward(
        self, x: Inputs, state: KeyValueState | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, KeyValueState]:
        check_inputs(x, mask, self.model_dim, self.projection)
        x = without_padding(x, mask)
        queries, keys, values = split_heads(
            self.projection(x), self.num_heads, self.key_dim, self.key_dim, self.value_dim
        )
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        if state is not None:
            keys, values = torch.cat([state.keys, keys], dim=2), torch.cat([state.values, values], dim=2)
            real = torch.cat([state.real, real], dim=1)
        after = KeyValueState(keys, values, real)
        dropout = self.dropout if self.training else 0.0
        if state is None and mask is None:
            outputs = scaled_dot_product_attention(queries, keys, values, dropout_p=dropout, is_causal=self.causal)
        else:
            outputs = attend_to(queries, after, causal=self.causal, dropout=dropout)
        return self.output(outputs.transpose(1, 2).flatten(2)), after

    def attend(self, x: Inputs, mask: Mask | None = None) -> Inputs:
        """The outputs for whole sequences, of which no state is kept."""
        return self(x, None, mask)[0]


def split_heads(projected: Tensor, num_heads: int, *dims: int) -> list[Tensor]:
    """b t (h·d₁ + h·d₂ + …) → one b h t d each."""
    parts = projected.split([num_heads * dim for dim in dims], dim=-1)
    return [part.unflatten(-1, (num_heads, -1)).transpose(1, 2) for part in parts]


def attend_to(queries: Tensor, state: KeyValueState, *, causal: bool, dropout: float) -> Tensor:
    """Attention to the real steps so far; a query with nothing to attend to reads zero."""
    steps, total = queries.shape[2], state.keys.shape[2]
    allowed = state.real[:, None, None, :]
    if causal:
        visible = torch.ones(steps, total, dtype=torch.bool, device=queries.device).tril(total - steps)
        allowed = allowed & visible
    empty = ~allowed.any(dim=-1, keepdim=True)
    outputs = scaled_dot_product_attention(
        queries, state.keys, state.values, attn_mask=allowed | empty, dropout_p=dropout
    )
    return outputs.masked_fill(empty, 0.0)
