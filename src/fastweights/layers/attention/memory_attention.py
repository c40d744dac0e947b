"""The base of self- and cross-attention with a fast-weight memory."""

import torch
from torch import Tensor, nn

from fastweights.feature_maps import DPFP, FeatureMap
from fastweights.kernels.native.attention import Masking
from fastweights.layers.attention.arguments import check_choices, check_reads, check_sizes, check_state
from fastweights.layers.attention.choices import refuse_what_does_not_go_together
from fastweights.layers.attention.low_rank import linear
from fastweights.layers.exact.overflow import refuse_overflow
from fastweights.layers.exact.padding import check_inputs
from fastweights.layers.feature_projection import FeatureProjection
from fastweights.memory import (
    AttentionNormalisation,
    FastWeightState,
    Normalisation,
    Observation,
    Observed,
    SumNormalisation,
    WriteInputs,
    run_rule,
)
from fastweights.memory.whole_sequence import attend, is_short, read_memory, write_all
from fastweights.shapes import Inputs, Mask
from fastweights.update_rules import DeltaRule, Gate, SumRule, UpdateRule


class MemoryAttention(Observed, nn.Module):
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
        check_choices(feature_map=feature_map, update_rule=update_rule, normalisation=normalisation)
        check_reads(attention_normalisation, read_scale, backend)
        check_sizes(key_dim=key_dim, value_dim=value_dim)
        self.model_dim, self.num_heads, self.read_scale = model_dim, num_heads, read_scale
        self.key_dim = key_dim or _per_head(model_dim, num_heads, "key_dim")
        self.value_dim = value_dim or _per_head(model_dim, num_heads, "value_dim")
        self.update_rule, self.backend = update_rule, backend
        if not isinstance(attention_normalisation, AttentionNormalisation):
            wanted = attention_normalisation or update_rule.needs_normaliser
            attention_normalisation = AttentionNormalisation() if wanted else None
        self.attention_normalisation = attention_normalisation
        self.mapping = FeatureProjection(self.key_dim, feature_map, normalisation)
        refuse_what_does_not_go_together(self.mapping, update_rule, attention_normalisation)
        self.output = nn.Linear(num_heads * self.value_dim, model_dim, bias=False)
        self._add_projections()
        gates = update_rule.gates
        self.low_rank_gates = nn.ModuleDict({gate.label: self._low_rank(gate) for gate in gates if gate.rank})
        learned = {gate.label: gate.parameters(num_heads, self._components(gate)) for gate in gates}
        self.gate_parameters = nn.ModuleDict({name: nn.ParameterDict(x) for name, x in learned.items() if x})

    def _add_projections(self) -> None:
        """The projections that make queries, keys, values and the logits of the gates."""
        raise NotImplementedError

    def _components(self, gate: Gate) -> int:
        """How many numbers a gate is, for one head and one step or write."""
        return {"head": 1, "key": self.mapping.feature_dim, "value": self.value_dim}[gate.per]

    def _logits(self, gate: Gate) -> int:
        """How many logits a gate takes, for one head and one step."""
        return gate.from_input * self._components(gate) * (self.update_rule.writes_per_step if gate.each_write else 1)

    @property
    def _gate_dims(self) -> list[int]:
        """Logits of the gates that the one projection computes."""
        return [self._logits(gate) for gate in self.update_rule.gates if not gate.rank]

    def _low_rank(self, gate: Gate) -> nn.Module:
        rank = self.value_dim if gate.rank == "head" else gate.rank
        return linear(self.model_dim, self.num_heads * self._logits(gate), rank)

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

    def _start(
        self, x: Inputs, mask: Tensor | None, state: FastWeightState | None, projection: nn.Module | None = None
    ) -> FastWeightState:
        """Check the inputs; return the given state, or an empty one and fresh random features for a new sequence."""
        check_inputs(x, mask, self.model_dim, projection)
        if state is None:
            self.mapping.redraw()
            return self.initial_state(x.shape[0], x.dtype, x.device)
        check_state(state)
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

    def _writes(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        gate_logits: list[Tensor],
        mask: Mask | None,
        boundaries: Mask | None = None,
    ) -> WriteInputs:
        """φ'(k), v and the gates of the rule."""
        keys, log_scales = self.mapping(self._single_writes(keys))
        values = self._single_writes(values)
        return WriteInputs(keys, values, self._gates(x, gate_logits), mask, log_scales, boundaries)

    def _single_writes(self, x: Tensor) -> Tensor:
        """b h t (n·d) → b h (t·n) d, for a rule with n writes per step."""
        count = self.update_rule.writes_per_step
        return x if count == 1 else x.unflatten(-1, (count, x.shape[-1] // count)).flatten(2, 3)

    def _gates(self, x: Tensor, computed: list[Tensor]) -> dict[str, Tensor]:
        """g = activation(W_g x) for every gate of the rule, such as β = σ(W_β x) (Eq. 21)."""
        gates, of_projection = {}, iter(computed)
        for gate in self.update_rule.gates:
            if gate.rank:
                (logits,) = self._split(self.low_rank_gates[gate.label](x), self._logits(gate))
            else:
                logits = next(of_projection)
            if gate.each_write:
                logits = self._single_writes(logits)
            learned = (
                self.gate_parameters.get_submodule(gate.label).named_parameters()
                if gate.label in self.gate_parameters
                else ()
            )
            gates[gate.label] = gate(logits.squeeze(-1) if gate.per == "head" else logits, **dict(learned))
        return gates

    def _run(
        self, writes: WriteInputs, queries: Tensor, state: FastWeightState, x: Tensor, causal: bool
    ) -> tuple[Tensor, FastWeightState]:
        if self._writes_at_once and not causal:
            after = write_all(writes, state)
            reads = self._read(queries, after)
        else:
            reads, after = run_rule(
                self.update_rule,
                writes,
                queries,
                state,
                attention_normalisation=self.attention_normalisation,
                causal=causal,
                backend=self.backend,
            )
        if self.is_observed:
            self._show(writes, state, *((queries, reads) if causal else ()))
        y = self._outputs(reads, writes, x)
        refuse_overflow(x, state, y, after)
        return y, after

    def _show(
        self, writes: WriteInputs, state: FastWeightState, queries: Tensor | None = None, reads: Tensor | None = None
    ) -> None:
        """Show the observer what was written into which memory, and what each step read."""
        attention = self.attention_normalisation
        self.show(Observation(self.update_rule, writes, state, attention, queries, reads, self.backend))

    def _attend(
        self,
        x: Tensor,
        source: Tensor,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        gate_logits: list[Tensor],
        masking: Masking,
    ) -> Tensor:
        """Write a whole source, let x read it and keep no state: with no memory where that takes fewer products."""
        dims = (self.mapping.feature_dim, self.value_dim)
        if not (self._writes_at_once and is_short(queries.shape[2], keys.shape[2], *dims)):
            writes = self._writes(source, keys, values, gate_logits, masking.mask)
            state = self.initial_state(x.shape[0], x.dtype, x.device)
            return self._run(writes, self.mapping(queries)[0], state, x, masking.causal)[0]
        normalised, drawn = self.attention_normalisation is not None, self.mapping.projection

        def by_definition(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            mapped, log_scales = self.mapping(keys, drawn)
            writes = WriteInputs(mapped, values, {}, masking.mask, log_scales)
            return attend(writes, self.mapping(queries, drawn)[0], normalised=normalised, causal=masking.causal)

        reads = self.mapping.attend(queries, keys, values, masking, by_definition) if normalised else None
        reads = by_definition(queries, keys, values) if reads is None else reads
        if self.is_observed:
            with torch.no_grad():
                writes = self._writes(source, keys, values, gate_logits, masking.mask)
                seen = (self.mapping(queries, drawn)[0], reads) if masking.causal else ()
                self._show(writes, self.initial_state(x.shape[0], x.dtype, x.device), *seen)
        y = self._outputs(reads)
        refuse_overflow(x, None, y, None)
        return y

    def _read(self, queries: Tensor, state: FastWeightState) -> Tensor:
        """Read a memory and leave it as it is."""
        reads = read_memory(self.update_rule, state, queries, self.attention_normalisation)
        return reads.to(queries.dtype)

    def _outputs(self, reads: Tensor, writes: WriteInputs | None = None, x: Tensor | None = None) -> Tensor:
        """b h t v → b t model."""
        reads = reads if self.read_scale == 1.0 else self.read_scale * reads
        reads = reads.transpose(1, 2)
        if writes is not None and x is not None:
            reads = self._finish(reads, writes, x)
        return self.output(reads.flatten(2))

    @property
    def _writes_at_once(self) -> bool:
        """True if the order of writes does not matter, and no backend was asked for that takes them in order."""
        return isinstance(self.update_rule, SumRule) and self.backend == "auto"

    def _finish(self, reads: Tensor, writes: WriteInputs, x: Tensor) -> Tensor:
        """What is done to the reads, b t h v, before the output projection: nothing."""
        return reads


def _per_head(model_dim: int, num_heads: int, name: str) -> int:
    if num_heads < 1 or model_dim < 1 or model_dim % num_heads:
        raise ValueError(
            f"num_heads: expected a positive divisor of model_dim {model_dim}, got {num_heads}; or give {name} itself"
        )
    return model_dim // num_heads
