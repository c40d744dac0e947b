"""Attention with relative positions and a memory of earlier hidden vectors: Transformer-XL (Dai et al., 2019)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from typing_extensions import override

from fastweights.layers.exact.dropout import Dropout
from fastweights.layers.exact.padding import without_padding
from fastweights.layers.positions import sinusoids
from fastweights.memory import LayerState
from fastweights.shapes import Inputs, Mask, Steps

GROUP_BYTES = 1 << 22
"""On a CPU sequences attend in groups whose scores take so many bytes, or one by one: they stay in the cache."""


@dataclass(frozen=True, eq=False)
class HiddenState(LayerState):
    """The last inputs of the layer, which of them are real, and how many steps each sequence has seen."""

    hidden: Float[Tensor, "b s model"]
    real: Bool[Tensor, "b s"]
    steps: Steps


class RelativeAttention(nn.Module):
    """score_ij = ((q_i + u)·k_j + (q_i + w)·r_{i-j}) / √d  with  r = W_r (sinusoid of the distance i - j).

    Keys and values cover the last `memory_length` steps before the segment as well; u and w are learned. Distances and
    the memory count real steps only, wherever the padded ones are.
    """

    def __init__(self, model_dim: int, num_heads: int, *, memory_length: int, dropout: float = 0.0) -> None:
        super().__init__()
        if num_heads < 1 or model_dim % num_heads or model_dim % 2:
            raise ValueError(
                f"num_heads: expected a positive divisor of an even model_dim, got {num_heads} for {model_dim}"
            )
        if memory_length < 0:
            raise ValueError(f"memory_length: expected at least 0 steps, got {memory_length}")
        self.model_dim, self.num_heads, self.memory_length = model_dim, num_heads, memory_length
        self.projection = nn.Linear(model_dim, 3 * model_dim, bias=False)
        self.distance_projection = nn.Linear(model_dim, model_dim, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(num_heads, 1, model_dim // num_heads))
        self.distance_bias = nn.Parameter(torch.zeros(num_heads, 1, model_dim // num_heads))
        self.output = nn.Linear(model_dim, model_dim, bias=False)
        self.dropout = Dropout(dropout)

    def initial_state(
        self, batch: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
    ) -> HiddenState:
        """No earlier inputs, for `batch` sequences of inputs of type `dtype`."""
        hidden = torch.zeros(batch, 0, self.model_dim, dtype=dtype, device=device)
        real = torch.zeros(batch, 0, dtype=torch.bool, device=device)
        return HiddenState(hidden, real, torch.zeros(batch, dtype=torch.int64, device=device))

    @override
    def forward(
        self, x: Inputs, state: HiddenState | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, HiddenState]:
        batch, steps, _ = x.shape
        real = torch.ones(batch, steps, dtype=torch.bool, device=x.device) if mask is None else mask
        if state is None:
            state = self.initial_state(batch, x.dtype, x.device)
        hidden = torch.cat([state.hidden, without_padding(x, mask)], dim=1)
        real = torch.cat([state.real, real], dim=1)
        queries, keys, values = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part in self.projection(hidden).chunk(3, dim=-1)
        )
        queries = queries[:, :, queries.shape[2] - steps :]
        distances = self._distances(real.shape[1], keys.dtype)
        parts = zip(*(part.split(self._group(queries, keys)) for part in (queries, keys, values, real)), strict=True)
        reads = [self._read(*part, distances=distances, padded=mask is not None) for part in parts]
        outputs = torch.cat(reads).transpose(1, 2).flatten(2)
        seen = state.steps + real[:, real.shape[1] - steps :].sum(dim=1)
        if mask is not None:
            # The padded steps to the front: they are forgotten first, and the others stay next to each other.
            order = real.long().argsort(dim=1, stable=True)
            hidden, real = hidden.gather(1, order[..., None].expand_as(hidden)), real.gather(1, order)
        kept = max(hidden.shape[1] - self.memory_length, 0)
        return self.output(outputs), HiddenState(hidden[:, kept:], real[:, kept:], seen)

    def attend(self, x: Inputs, mask: Mask | None = None) -> Inputs:
        """The outputs for whole sequences without a memory before them, of which no state is kept."""
        return self(x, None, mask)[0]

    def _group(self, queries: Tensor, keys: Tensor) -> int:
        """How many sequences attend at once: all of them where launches cost more, or one mask drops for all."""
        batch, heads, steps, _ = queries.shape
        if queries.device.type != "cpu" or torch.compiler.is_compiling() or (self.training and self.dropout.p):
            return batch
        scores = heads * steps * keys.shape[2] * keys.element_size()
        return max(1, GROUP_BYTES // max(1, scores))

    def _distances(self, total: int, dtype: torch.dtype) -> Float[Tensor, "s h d"]:
        """r of every distance that occurs, the farthest first."""
        device = self.distance_projection.weight.device
        from_far = sinusoids(torch.arange(total - 1, -1, -1, device=device), self.model_dim, dtype)
        return self.distance_projection(from_far).unflatten(-1, (self.num_heads, -1))

    def _read(
        self, queries: Tensor, keys: Tensor, values: Tensor, real: Tensor, *, distances: Tensor, padded: bool
    ) -> Tensor:
        align = partial(_align_real, real=real) if padded else _align
        return self.dropout(self._weights(queries, keys, real, distances, align)) @ values

    def _weights(
        self, queries: Tensor, keys: Tensor, real: Tensor, distances: Tensor, align: Callable[[Tensor], Tensor]
    ) -> Tensor:
        steps, total = queries.shape[2], keys.shape[2]
        scale = 1 / math.sqrt(queries.shape[-1])
        by_distance = (scale * (queries + self.distance_bias)) @ distances.permute(1, 2, 0)
        visible = torch.ones(steps, total, dtype=torch.bool, device=keys.device).tril(total - steps)
        future = torch.zeros_like(visible, dtype=queries.dtype).masked_fill(~visible, -torch.inf)
        content = torch.baddbmm(future, (scale * (queries + self.content_bias)).flatten(0, 1), keys.flatten(0, 1).mT)
        scores = content.unflatten(0, queries.shape[:2]) + align(by_distance)
        # Checked on the CPU only: on a GPU the check would synchronise.
        if real.device.type == "cpu" and not torch.compiler.is_compiling() and real.all():
            return scores.softmax(dim=-1)
        # A padded query may see nothing; softmax over nothing would be NaN.
        allowed = visible & real[:, None, None, :]
        return scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(dim=-1) * allowed


def _align(by_distance: Tensor) -> Tensor:
    """Column j of row i becomes the score of distance i - j: row i moves left by (steps - 1 - i).

    With one column of zeros in front, the same numbers read with rows one longer are each row moved by one more; what
    wraps round lies in the future and is masked.
    """
    *lead, steps, total = by_distance.shape
    padded = torch.nn.functional.pad(by_distance, (1, 0)).reshape(*lead, total + 1, steps)
    return padded[..., 1:, :].reshape(*lead, steps, total)


def _align_real(by_distance: Tensor, real: Tensor) -> Tensor:
    """The same where padded steps do not count: the distance is the number of real steps between."""
    steps, total = by_distance.shape[-2:]
    places = real.cumsum(dim=1)
    distances = (places[:, total - steps :, None] - places[:, None, :]).clamp(min=0)
    return by_distance.gather(-1, (total - 1 - distances)[:, None].expand_as(by_distance))
