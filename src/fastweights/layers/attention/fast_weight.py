"""Attention whose past is a fast-weight memory (Sec. 4.2): the layer that composes map, rule and normalisation."""

from torch import nn
from typing_extensions import override

from fastweights.feature_maps import DPFP, FeatureMap
from fastweights.layers.attention.memory_attention import MemoryAttention
from fastweights.layers.exact.padding import without_padding
from fastweights.memory import AttentionNormalisation, FastWeightState, Normalisation, SumNormalisation
from fastweights.shapes import Inputs, Mask
from fastweights.update_rules import DeltaRule, UpdateRule


class FastWeightAttention(MemoryAttention):
    """k, v, q, g = W x;   W ← rule(W, φ'(k), v, g);   y = W φ'(q)   (Eqs. 4, 20-29), for several heads.

    `forward(x, state)` returns `(y, state)`: the state goes in and comes out, so a sequence can be fed whole, in
    segments of any size or token by token. Where `mask` is false, a step is padding and changes nothing. With
    `causal=False` the whole sequence is written before any of it is read. Reads are multiplied by `read_scale` before
    the output projection (the published language models take 1/√d_key). The gates g are those that the rule names.
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
        self._dims = [self.key_dim, self.key_dim, self.value_dim, *self.gate_dims]
        self.projection = nn.Linear(self.model_dim, self.num_heads * sum(self._dims), bias=False)

    @override
    def forward(
        self, x: Inputs, state: FastWeightState | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, FastWeightState]:
        state = self._start(x, mask, state)
        real = without_padding(x, mask)
        queries, keys, values, *gate_logits = self._split(self.projection(real), *self._dims)
        writes = self._writes(keys, values, gate_logits, mask)
        return self._run(writes, self.mapping(queries)[0], state, real, self.causal)
