"""What self- and cross-attention with a fast-weight memory share."""

import torch
from torch import Tensor, nn

from fastweights.feature_maps import DPFP, FeatureMap
from fastweights.layers.exact.overflow import refuse_overflow
from fastweights.layers.exact.padding import check_inputs
from fastweights.layers.feature_projection import FeatureProjection
from fastweights.memory import (
    AttentionNormalisation,
    FastWeightState,
    Normalisation,
    SumNormalisation,
    WriteInputs,
    run_rule,
)
from fastweights.shapes import Gates, Inputs, Mask
from fastweights.update_rules import DeltaRule, LinearRule, UpdateRule


class MemoryAttention(nn.Module):
    """The choices, the feature map, the gates, and writing and reading by heads.

    `attention_normalisation=True` stands for `AttentionNormalisation()`.
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
        read_scale: float = 1.0,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.model_dim, self.num_heads, self.read_scale = model_dim, num_heads, read_scale
        self.key_dim = key_dim or _per_head(model_dim, num_heads, "key_dim")
        self.value_dim = value_dim or _per_head(model_dim, num_heads, "value_dim")
        self.update_rule, self.backend = update_rule, backend
        if not isinstance(attention_normalisation, AttentionNormalisation):
            wanted = attention_normalisation or update_rule.needs_normaliser
            attention_normalisation = AttentionNormalisation() if wanted else None
        self.attention_normalisation = attention_normalisation
        self.mapping = FeatureProjection(self.key_dim, feature_map, normalisation)
        self._refuse_what_does_not_go_together()
        self.output = nn.Linear(num_heads * self.value_dim, model_dim, bias=False)
        self.gate_dims = [1 if gate.per == "head" else self.mapping.feature_dim for gate in update_rule.gates]
        self._add_projections()
        learned = {gate.name: gate.parameters(num_heads) for gate in update_rule.gates}
        self.gate_parameters = nn.ModuleDict({name: nn.ParameterDict(x) for name, x in learned.items() if x})

    def _add_projections(self) -> None:
        """The projections that make queries, keys, values and the logits of the gates."""
        raise NotImplementedError

    def initial_state(
        self, batch: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
    ) -> FastWeightState:
        """An empty memory for `batch` sequences of inputs of type `dtype`, in at least float32."""
        return FastWeightState.zeros(
            batch,
            self.num_heads,
            self.value_dim,
            self.mapping.feature_dim,
            normaliser=self.attention_normalisation is not None,
            log_scale=self.mapping.keeps_scale_apart,
            dtype=torch.promote_types(dtype, torch.float32),
            device=device,
        )

    def resample(self, generator: torch.Generator | None = None) -> None:
        """Draw new random features, if the feature map has any."""
        self.mapping.resample(generator)

    def _start(self, x: Inputs, mask: Tensor | None, state: FastWeightState | None) -> FastWeightState:
        """Check the inputs; return the given state, or an empty one and fresh random features for a new sequence."""
        check_inputs(x, mask, self.model_dim)
        if state is None:
            self.mapping.redraw()
            return self.initial_state(x.shape[0], x.dtype, x.device)
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

    def _writes(self, keys: Tensor, values: Tensor, gate_logits: list[Tensor], mask: Mask | None) -> WriteInputs:
        """φ'(k), v and the gates of the rule."""
        keys, log_scales = self.mapping(keys)
        return WriteInputs(keys, values, self._gates(gate_logits), mask, log_scales)

    def _gates(self, logits: list[Tensor]) -> Gates:
        """g = activation(W_g x) for every gate of the rule, such as β = σ(W_β x) (Eq. 21)."""
        gates = {}
        for gate, x in zip(self.update_rule.gates, logits, strict=True):
            learned = (
                self.gate_parameters.get_submodule(gate.name).named_parameters()
                if gate.name in self.gate_parameters
                else ()
            )
            gates[gate.name] = gate(x.squeeze(-1) if gate.per == "head" else x, **dict(learned))
        return gates

    def _run(
        self, writes: WriteInputs, queries: Tensor, state: FastWeightState, x: Tensor, causal: bool
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


def _per_head(model_dim: int, num_heads: int, name: str) -> int:
    if num_heads < 1 or model_dim < 1 or model_dim % num_heads:
        raise ValueError(
            f"num_heads: expected a positive divisor of model_dim {model_dim}, got {num_heads}; or give {name} itself"
        )
    return model_dim // num_heads
