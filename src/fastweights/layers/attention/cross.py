"""Attention to a source sequence that was written into a fast-weight memory."""

from torch import nn
from typing_extensions import override

from fastweights.kernels.native.attention import Masking
from fastweights.layers.attention.memory_attention import MemoryAttention
from fastweights.layers.exact.overflow import refuse_overflow
from fastweights.layers.exact.padding import check_inputs, without_padding
from fastweights.memory import FastWeightState, run_rule
from fastweights.memory.whole_sequence import write_all
from fastweights.shapes import Inputs, Mask, Queries, Source, SourceMask


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
        state = self._start(source, mask, state, self.source_projection)
        source = without_padding(source, mask)
        keys, values, *gate_logits = self._split(self.source_projection(source), *self._dims)
        writes = self._writes(source, keys, values, gate_logits, mask)
        if self._writes_at_once:
            after = write_all(writes, state)
        else:
            _, after = run_rule(
                self.update_rule,
                writes,
                writes.keys,
                state,
                attention_normalisation=self.attention_normalisation,
                backend=self.backend,
            )
        if self.is_observed:
            self._show(writes, state)
        refuse_overflow(source, state, None, after)
        return after

    @override
    def forward(
        self, x: Inputs, state: FastWeightState | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, FastWeightState]:
        if state is None:
            raise ValueError("state: cross-attention reads a memory that `write(source)` made; got None")
        state = self._start(x, mask, state, self.query_projection)
        real = without_padding(x, mask)
        y = self._outputs(self._read(self.queries(real), state))
        refuse_overflow(real, state, y, None)
        return y, state

    def queries(self, x: Inputs) -> Queries:
        """φ'(W_q x): what x reads the memory with."""
        (queries,) = self._split(self.query_projection(x), self.key_dim)
        return self.mapping(queries)[0]

    def attend(
        self, x: Inputs, source: Source, mask: Mask | None = None, source_mask: SourceMask | None = None
    ) -> Inputs:
        """The outputs for whole sequences, each with its source, of which no memory is kept."""
        check_inputs(x, mask, self.model_dim, self.query_projection)
        check_inputs(source, source_mask, self.model_dim, self.source_projection)
        self.mapping.redraw()
        real, source = without_padding(x, mask), without_padding(source, source_mask)
        (queries,) = self._split(self.query_projection(real), self.key_dim)
        keys, values, *gate_logits = self._split(self.source_projection(source), *self._dims)
        return self._attend(real, source, queries, keys, values, gate_logits, Masking(source_mask, causal=False))
