"""Attention whose past is a fast-weight memory (Sec. 4.2): the layer that composes map, rule and normalisation."""

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.feature_maps import DPFP, FeatureMap
from fastweights.layers.feature_mapping import FeatureMapping
from fastweights.layers.overflow import refuse_gradient_overflow, refuse_overflow
from fastweights.layers.padding import check_inputs, with_steps, without_padding
from fastweights.layers.steady_linear import SteadyLinear
from fastweights.memory import (
    AttentionNormalisation,
    FastWeightState,
    Normalisation,
    SumNormalisation,
    Writes,
    run_rule,
)
from fastweights.shapes import Inputs, Mask
from fastweights.update_rules import DeltaRule, LinearRule, UpdateRule


class FastWeightMemory(nn.Module):
    """What self- and cross-attention share: the choices, the mapping, and writing and reading by heads."""

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
        attention_normalisation: AttentionNormalisation | bool = False,
        read_scale: float = 1.0,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.model_dim, self.num_heads, self.read_scale = model_dim, num_heads, read_scale
        self.key_dim = key_dim or _per_head(model_dim, num_heads, "key_dim")
        self.value_dim = value_dim or _per_head(model_dim, num_heads, "value_dim")
        self.update_rule, self.backend = update_rule, backend
        if isinstance(attention_normalisation, AttentionNormalisation):
            self.attention_normalisation: AttentionNormalisation | None = attention_normalisation
        else:
            wanted = attention_normalisation or update_rule.needs_normaliser
            self.attention_normalisation = AttentionNormalisation() if wanted else None
        self.mapping = FeatureMapping(self.key_dim, feature_map, normalisation)
        self._refuse_what_does_not_go_together()
        self.output = SteadyLinear(num_heads * self.value_dim, model_dim, bias=False)
        self._add_projections()

    def _add_projections(self) -> None:
        """The projections that make keys, values, strengths and queries."""
        raise NotImplementedError

    def initial_state(
        self, batch: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
    ) -> FastWeightState:
        """An empty memory for `batch` sequences."""
        return FastWeightState.zeros(
            batch,
            self.num_heads,
            self.value_dim,
            self.mapping.feature_dim,
            normaliser=self.attention_normalisation is not None,
            log_scale=self.mapping.keeps_scale_apart,
            dtype=dtype,
            device=device,
        )

    def resample(self, generator: torch.Generator | None = None) -> None:
        """Draw new random features, if the feature map has any."""
        self.mapping.resample(generator)

    def _start(self, x: Inputs, mask: Tensor | None, state: FastWeightState | None) -> FastWeightState:
        """Check what came in; the given state, or an empty one and fresh random features for a new sequence."""
        check_inputs(x, mask, self.model_dim)
        if state is None:
            self.mapping.redraw()
            return self.initial_state(x.shape[0], torch.promote_types(x.dtype, torch.float32), x.device)
        expected = (x.shape[0], self.num_heads, self.value_dim, self.mapping.feature_dim)
        if tuple(state.weights.shape) != expected:
            raise ValueError(f"state: expected weights of shape {expected}, got {tuple(state.weights.shape)}")
        if (state.normaliser is None) == (self.attention_normalisation is not None):
            raise ValueError("state: it has a normaliser if and only if the layer uses attention normalisation")
        if (state.log_scale is None) == self.mapping.keeps_scale_apart:
            raise ValueError("state: it has a log_scale if and only if the layer's keys have a scale of their own")
        return state

    def _split(self, projected: Tensor, *dims: int) -> list[Tensor]:
        """b t (h·d₁ + h·d₂ + …) → one b h t d each."""
        parts = projected.split([self.num_heads * dim for dim in dims], dim=-1)
        return [part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts]

    def _writes(self, keys: Tensor, values: Tensor, strengths: list[Tensor], mask: Mask | None) -> Writes:
        """φ'(k), v and β = σ(W_β x) (Eq. 21), or ones for rules without a strength."""
        mask = None if mask is None else mask[:, : keys.shape[2]]
        keys, log_scales = self.mapping(keys)
        beta = strengths[0].squeeze(-1).sigmoid() if strengths else torch.ones_like(values[..., 0])
        return Writes(keys, values, beta, mask, log_scales)

    def _run(
        self, writes: Writes, queries: Tensor, state: FastWeightState, x: Tensor, causal: bool
    ) -> tuple[Tensor, FastWeightState]:
        reads, after = run_rule(
            self.update_rule,
            writes,
            queries,
            state,
            attention_normalisation=self.attention_normalisation,
            causal=causal,
            backend=self.backend,
        )
        if self.read_scale != 1.0:
            reads = self.read_scale * reads
        y = self.output(reads.transpose(1, 2).flatten(2))
        refuse_overflow(x, state, y, after)
        return y, after

    def _refuse_what_does_not_go_together(self) -> None:
        feature_map, normalisation = self.mapping.feature_map, self.mapping.normalisation
        if self.attention_normalisation is not None and not feature_map.positive:
            raise ValueError(
                f"attention_normalisation: {feature_map} can be negative, so that z·q could vanish; "
                "possible: a map with positive features, or normalisation=L2Normalisation()"
            )
        divides_everything = self.attention_normalisation is not None and self.attention_normalisation.retrieval
        run = self.update_rule.with_attention_normalisation()
        follows_scale = divides_everything and isinstance(run, LinearRule) and run.follows_scale
        if self.mapping.keeps_scale_apart and not follows_scale:
            raise ValueError(
                f"feature_map: {feature_map} with {normalisation} needs a linear rule and "
                "attention_normalisation=True, which makes reads independent of the scale; SumNormalisation() and "
                "L2Normalisation() do so as well"
            )


class FastWeightAttention(FastWeightMemory):
    """k, v, q, β = W x;   W ← rule(W, φ'(k), v, β);   y = W φ'(q)   (Eqs. 4, 20-29), for several heads.

    `forward(x, state)` returns `(y, state)`: the state goes in and comes out, so a sequence can be fed whole, in
    segments of any size or token by token. Where `mask` is false, a step is padding and changes nothing. With
    `causal=False` the whole sequence is written before any of it is read. Reads are multiplied by `read_scale` before
    the output projection (the published language models take 1/√d_key).
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        feature_map: FeatureMap = DPFP(nu=1),  # noqa: B008
        update_rule: UpdateRule = DeltaRule(),  # noqa: B008
        normalisation: Normalisation = SumNormalisation(),  # noqa: B008
        attention_normalisation: AttentionNormalisation | bool = False,
        causal: bool = True,
        read_scale: float = 1.0,
        backend: str = "auto",
    ) -> None:
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
        self.causal = causal

    @override
    def _add_projections(self) -> None:
        self._dims = [self.key_dim, self.key_dim, self.value_dim] + [1] * self.update_rule.uses_strength
        self.projection = SteadyLinear(self.model_dim, self.num_heads * sum(self._dims), bias=False)

    @override
    def forward(
        self, x: Inputs, state: FastWeightState | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, FastWeightState]:
        state = self._start(x, mask, state)
        real = without_padding(x, mask)
        projected = self.projection(real)
        queries, keys, values, *strengths = self._split(projected, *self._dims)
        writes = self._writes(keys, values, strengths, mask)
        y, state = self._run(writes, self.mapping(queries)[0], state, real, self.causal)
        refuse_gradient_overflow(real, projected, y, state)
        return with_steps(y, x.shape[1]), state


class FastWeightCrossAttention(FastWeightMemory):
    """k, v, β = W s  write the memory,  q = W x  read it: a source sequence s attended to by another one, x.

    `write(source)` makes the state once; every `forward(x, state)` then reads it and leaves it as it is.
    """

    @override
    def _add_projections(self) -> None:
        self._dims = [self.key_dim, self.value_dim] + [1] * self.update_rule.uses_strength
        self.source_projection = SteadyLinear(self.model_dim, self.num_heads * sum(self._dims), bias=False)
        self.query_projection = SteadyLinear(self.model_dim, self.num_heads * self.key_dim, bias=False)

    def write(self, source: Inputs, state: FastWeightState | None = None, mask: Mask | None = None) -> FastWeightState:
        """Write a source sequence, or a further piece of it, into the memory."""
        state = self._start(source, mask, state)
        source = without_padding(source, mask)
        keys, values, *strengths = self._split(self.source_projection(source), *self._dims)
        writes = self._writes(keys, values, strengths, mask)
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
        nothing = queries[:, :, :0]
        writes = self._writes(nothing, queries.new_zeros(*nothing.shape[:3], self.value_dim), [], None)
        y, state = self._run(writes, self.mapping(queries)[0], state, real, causal=False)
        return with_steps(y, x.shape[1]), state


def _per_head(model_dim: int, num_heads: int, name: str) -> int:
    if num_heads < 1 or model_dim < 1 or model_dim % num_heads:
        raise ValueError(
            f"num_heads: expected a positive divisor of model_dim {model_dim}, got {num_heads}; or give {name} itself"
        )
    return model_dim // num_heads
