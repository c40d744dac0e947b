"""Attention to a source sequence that was written into a fast-weight memory."""

from typing_extensions import override

from fastweights.layers.attention.memory_attention import MemoryAttention
from fastweights.layers.exact.batch_invariant_linear import BatchInvariantLinear
from fastweights.layers.exact.overflow import refuse_overflow
from fastweights.layers.exact.padding import check_inputs, with_steps, without_padding
from fastweights.memory import FastWeightState, run_rule
from fastweights.memory.whole_sequence import write_all
from fastweights.shapes import Inputs, Mask, Source, SourceMask


class FastWeightCrossAttention(MemoryAttention):
    """k, v, g = W s  write the memory,  q = W x  read it: a source sequence s attended to by another one, x.

    `write(source)` makes the state once; every `forward(x, state)` then reads it and leaves it as it is.
    """

    @override
    def _add_projections(self) -> None:
        self._dims = [self.key_dim, self.value_dim, *self.gate_dims]
        self.source_projection = BatchInvariantLinear(self.model_dim, self.num_heads * sum(self._dims), bias=False)
        self.query_projection = BatchInvariantLinear(self.model_dim, self.num_heads * self.key_dim, bias=False)

    def write(self, source: Inputs, state: FastWeightState | None = None, mask: Mask | None = None) -> FastWeightState:
        """Write a source sequence, or a further piece of it, into the memory."""
        state = self._start(source, mask, state)
        source = without_padding(source, mask)
        keys, values, *gate_logits = self._split(self.source_projection(source), *self._dims)
        writes = self._writes(keys, values, gate_logits, mask)
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
        refuse_overflow(source, state, None, after)
        return after

    @override
    def forward(
        self, x: Inputs, state: FastWeightState | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, FastWeightState]:
        if state is None:
            raise ValueError("state: cross-attention reads a memory that `write(source)` made; got None")
        state = self._start(x, mask, state)
        real = without_padding(x, mask)
        (queries,) = self._split(self.query_projection(real), self.key_dim)
        y = self._outputs(self._read(self.mapping(queries)[0], state))
        refuse_overflow(real, state, y, None)
        return with_steps(y, x.shape[1]), state

    def attend(
        self, x: Inputs, source: Source, mask: Mask | None = None, source_mask: SourceMask | None = None
    ) -> Inputs:
        """The outputs for whole sequences, each with its source, of which no memory is kept."""
        check_inputs(x, mask, self.model_dim)
        check_inputs(source, source_mask, self.model_dim)
        self.mapping.redraw()
        real, source = without_padding(x, mask), without_padding(source, source_mask)
        (queries,) = self._split(self.query_projection(real), self.key_dim)
        keys, values, *gate_logits = self._split(self.source_projection(source), *self._dims)
        y = self._attend(queries, keys, values, gate_logits, source_mask, real, causal=False)
        return with_steps(y, x.shape[1])
