"""Attention to a source sequence that was written into a fast-weight memory."""

from torch import nn
from typing_extensions import override

from fastweights.layers.attention.memory_attention import MemoryAttention
from fastweights.layers.exact.padding import without_padding
from fastweights.memory import FastWeightState
from fastweights.shapes import Inputs, Mask


class FastWeightCrossAttention(MemoryAttention):
    """k, v, g = W s  write the memory,  q = W x  read it: a source sequence s attended to by another one, x.

    `write(source)` makes the state once; every `forward(x, state)` then reads it and leaves it as it is.
    """

    @override
    def _add_projections(self) -> None:
        count = self.update_rule.writes_per_step
        self._dims = [count * self.key_dim, count * self.value_dim, *self._gate_dims]
        self.source_projection = nn.Linear(self.model_dim, self.num_heads * sum(self._dims), bias=False)
        self.query_projection = nn.Linear(self.model_dim, self.num_heads * self.key_dim, bias=False)

    def write(self, source: Inputs, state: FastWeightState | None = None, mask: Mask | None = None) -> FastWeightState:
        """Write a source sequence, or a further piece of it, into the memory."""
        state = self._start(source, mask, state)
        source = without_padding(source, mask)
        keys, values, *gate_logits = self._split(self.source_projection(source), *self._dims)
        writes = self._writes(source, keys, values, gate_logits, mask)
        return self._run(writes, writes.keys, state, source, causal=True)[1]

    @override
    def forward(
        self, x: Inputs, state: FastWeightState | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, FastWeightState]:
        if state is None:
            raise ValueError("state: cross-attention reads a memory that `write(source)` made; got None")
        state = self._start(x, mask, state)
        real = without_padding(x, mask)
        (queries,) = self._split(self.query_projection(real), self.key_dim)
        nothing = queries.new_zeros(x.shape[0], 0, self.num_heads * sum(self._dims))
        keys, values, *gate_logits = self._split(nothing, *self._dims)
        writes = self._writes(real[:, :0], keys, values, gate_logits, None)
        y, state = self._run(writes, self.mapping(queries)[0], state, real, causal=False)
        return y, state
