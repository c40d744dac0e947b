"""Attention whose past is a fast-weight memory (Sec. 4.2): the layer that composes map, rule and normalisation."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.feature_maps import DPFP, FeatureMap
from fastweights.kernels.native.attention import Masking
from fastweights.layers.attention.arguments import check_parts, check_switches
from fastweights.layers.attention.memory_attention import MemoryAttention
from fastweights.layers.attention.output_gate import OutputGate
from fastweights.layers.attention.short_convolution import ShortConvolution
from fastweights.layers.exact.overflow import refuse_overflow
from fastweights.layers.exact.padding import check_inputs, without_padding
from fastweights.layers.exact.single_step import attention_step
from fastweights.layers.exact.training_sequence import training_sequence
from fastweights.memory import (
    AttentionNormalisation,
    FastWeightState,
    Normalisation,
    SumNormalisation,
    WriteInputs,
    run_rule,
)
from fastweights.memory.packing import check_boundaries
from fastweights.shapes import Inputs, Mask
from fastweights.update_rules import DeltaRule, UpdateRule


class FastWeightAttention(MemoryAttention):
    """k, v, q, g = W x;   W ← rule(W, φ'(k), v, g);   y = W φ'(q)   (Eqs. 4, 20-29), for several heads.

    `forward(x, state)` returns `(y, state)`: the state goes in and comes out, so a sequence can be fed whole, in
    segments of any size or token by token. Where `mask` is false, a step is padding and changes nothing. Where
    `boundaries` are true, a sequence begins that sees nothing of those before it in its row. With `causal=False` the
    whole sequence is written before any of it is read. Reads are multiplied by `read_scale` before the output
    projection (the published language models take 1/√d_key). The gates g are those that the rule names.

    Later models add parts (docs/math.md#your-model): a short `convolution` over queries, keys and values, an
    `output_gate` on the reads, `value_skip`, which adds D v with D learned per head, and `num_key_heads`, which lets
    several heads share keys and queries.
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        feature_map: FeatureMap = DPFP(nu=1),  # noqa: B008  a frozen value
        update_rule: UpdateRule = DeltaRule(),  # noqa: B008
        normalisation: Normalisation = SumNormalisation(),  # noqa: B008
        attention_normalisation: AttentionNormalisation | bool | None = None,
        causal: bool = True,
        read_scale: float = 1.0,
        backend: str = "auto",
        num_key_heads: int | None = None,
        convolution: ShortConvolution | None = None,
        output_gate: OutputGate | None = None,
        value_skip: bool = False,
    ) -> None:
        check_parts(convolution=convolution, output_gate=output_gate)
        check_switches(causal=causal, value_skip=value_skip)
        self.num_key_heads = num_heads if num_key_heads is None else num_key_heads
        if num_key_heads is not None and (num_key_heads < 1 or num_heads % num_key_heads):
            raise ValueError(f"num_key_heads: expected a divisor of num_heads {num_heads}, got {num_key_heads}")
        super().__init__(
            model_dim,
            num_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            feature_map=feature_map,
            update_rule=update_rule,
            normalisation=normalisation,
            attention_normalisation=attention_normalisation,
            read_scale=read_scale,
            backend=backend,
        )
        if value_skip and update_rule.writes_per_step > 1:
            raise ValueError(
                f"value_skip: {update_rule} writes several values per step; which one is meant is not said"
            )
        self.causal = causal
        self.convolution = None if convolution is None else convolution.build(sum(self._sizes[:3]))
        self.output_gate = None if output_gate is None else output_gate.build(model_dim, num_heads, self.value_dim)
        self.skip = nn.Parameter(torch.ones(num_heads)) if value_skip else None

    @override
    def _add_projections(self) -> None:
        count, keys = self.update_rule.writes_per_step, self.num_key_heads * self.key_dim
        gates = [self.num_heads * dim for dim in self._gate_dims]
        self._sizes = [keys, count * keys, count * self.num_heads * self.value_dim, *gates]
        self.projection = nn.Linear(self.model_dim, sum(self._sizes), bias=False)

    @override
    def initial_state(
        self, batch: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
    ) -> FastWeightState:
        state = super().initial_state(batch, dtype, device)
        if self.convolution is None:
            return state
        return replace(state, convolution=self.convolution.initial_state(batch, state.weights.dtype, device))

    @override
    def forward(
        self,
        x: Inputs,
        state: FastWeightState | None = None,
        mask: Mask | None = None,
        boundaries: Mask | None = None,
    ) -> tuple[Inputs, FastWeightState]:
        if mask is None and boundaries is None and (taken := attention_step(self, x, state)) is not None:
            if self.is_observed:
                assert state is not None
                self._show_again(x, state)
            return taken
        state = self._start(x, mask, state, self.projection)
        self._check_packing(x, mask, boundaries)
        real = without_padding(x, mask)
        projected = self.projection(real)
        if mask is None and boundaries is None and (trained := training_sequence(self, projected, state)) is not None:
            if self.is_observed:
                self._show_again(real, state, projected, trained[0])
            y, after = self._outputs(trained[0]), trained[1]
            refuse_overflow(x, state, y, after)
            return y, after
        writes, queries, state = self._mapped(real, projected, state, mask, boundaries)
        return self._run(writes, queries, state, real, self.causal)

    def _mapped(
        self, x: Tensor, projected: Tensor, state: FastWeightState, mask: Mask | None, boundaries: Mask | None
    ) -> tuple[WriteInputs, Tensor, FastWeightState]:
        """What a sequence writes and the queries it reads with, and the state with the convolution's part of it."""
        mixed, *gate_logits = projected.split([sum(self._sizes[:3]), *self._sizes[3:]], dim=-1)
        if self.convolution is not None:
            mixed, state = self._convolve(mixed, state, mask, boundaries)
        queries, keys, values = mixed.split(self._sizes[:3], dim=-1)
        logits = [self._heads(part, self.num_heads) for part in gate_logits]
        writes = self._writes(x, self._heads(keys), self._heads(values, self.num_heads), logits, mask, boundaries)
        log_scales = None if writes.log_scales is None else self._shared(writes.log_scales)
        writes = writes._replace(keys=self._shared(writes.keys), log_scales=log_scales)
        return writes, self._shared(self.mapping(self._heads(queries))[0]), state

    @torch.no_grad()
    def _show_again(
        self, x: Tensor, state: FastWeightState, projected: Tensor | None = None, reads: Tensor | None = None
    ) -> None:
        """Show what one of the fast paths did; what it keeps to itself is computed once more, as in the general one."""
        projected = self.projection(x) if projected is None else projected
        with torch.autocast(x.device.type, enabled=False):
            exact = projected.to(torch.promote_types(projected.dtype, torch.float32))
            writes, queries, state = self._mapped(x, exact, state, None, None)
            if reads is None:
                reads = run_rule(self.update_rule, writes, queries, state, backend=self.backend)[0]
        self._show(writes, state, queries, reads)

    def attend(self, x: Inputs, mask: Mask | None = None) -> Inputs:
        """The outputs for whole sequences from an empty memory, of which no state is kept."""
        plain = self.convolution is None and self.output_gate is None and self.skip is None
        if not plain or self.num_key_heads != self.num_heads:
            return self.forward(x, None, mask)[0]
        check_inputs(x, mask, self.model_dim, self.projection)
        self.mapping.redraw()
        real = without_padding(x, mask)
        queries, keys, values, *gate_logits = self.projection(real).split(self._sizes, dim=-1)
        logits = [self._heads(part, self.num_heads) for part in gate_logits]
        parts = (self._heads(queries), self._heads(keys), self._heads(values, self.num_heads))
        return self._attend(real, real, *parts, logits, Masking(mask, self.causal))

    def _check_packing(self, x: Inputs, mask: Mask | None, boundaries: Mask | None) -> None:
        if boundaries is None:
            return
        check_boundaries(boundaries, x.shape[0], x.shape[1], mask)
        if not self.causal:
            raise ValueError(
                "boundaries: a layer with causal=False writes a whole row before it reads, got packed rows"
            )

    def _convolve(
        self, mixed: Tensor, state: FastWeightState, mask: Mask | None, boundaries: Mask | None
    ) -> tuple[Tensor, FastWeightState]:
        assert self.convolution is not None
        assert state.convolution is not None
        mixed, after = self.convolution(mixed, state.convolution, mask, boundaries)
        return mixed, replace(state, convolution=after.to(state.convolution.dtype))

    def _heads(self, x: Tensor, heads: int | None = None) -> Tensor:
        """b t (h·d) → b h t d, by default for the heads of the keys."""
        heads = heads or self.num_key_heads
        return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2)

    def _shared(self, x: Tensor) -> Tensor:
        """The keys or queries of every head, from those of the key heads."""
        groups = self.num_heads // self.num_key_heads
        return x if groups == 1 else x.repeat_interleave(groups, dim=1)

    @override
    def _start(
        self, x: Inputs, mask: Tensor | None, state: FastWeightState | None, projection: nn.Module | None = None
    ) -> FastWeightState:
        state = super()._start(x, mask, state, projection)
        expected = None
        if self.convolution is not None:
            expected = (x.shape[0], self.convolution.width - 1, sum(self._sizes[:3]))
        found = None if state.convolution is None else tuple(state.convolution.shape)
        if found != expected:
            raise ValueError(f"state: expected a convolution of shape {expected}, got {found}")
        return state

    @override
    def _finish(self, reads: Tensor, writes: WriteInputs, x: Tensor) -> Tensor:
        if self.skip is not None:
            reads = reads + self.skip[:, None] * writes.values.transpose(1, 2)
        return reads if self.output_gate is None else self.output_gate(reads, x)
