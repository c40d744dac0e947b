"""Fast weights as the read: a memory of fixed size, with the cheapest form for each rule (Sec. 6.1)."""

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import layer_norm
from typing_extensions import override

from fastweights.experiments.retrieval.reads.base import Pairs, Questions, Read, Reads
from fastweights.experiments.retrieval.reads.clamped import clamped_reads
from fastweights.experiments.retrieval.reads.delta import delta_read_weights
from fastweights.experiments.retrieval.reads.dpfp_kernel import dpfp_products
from fastweights.experiments.retrieval.reads.sum_normalised import sum_normalised
from fastweights.feature_maps import DPFP, FeatureMap, RandomFeatureMap
from fastweights.kernels.features import fused_features
from fastweights.memory import (
    AttentionNormalisation,
    FastWeightState,
    NoNormalisation,
    Normalisation,
    Observation,
    SumNormalisation,
    WriteInputs,
    run_rule,
)
from fastweights.shapes import Features, Projection, Vectors
from fastweights.update_rules import DeltaRule, FastWeightMemoryRule, LinearRule, NormalisedStep, SumRule, UpdateRule


@dataclass(frozen=True)
class FastWeightRead(Read):
    """y = W_L φ(q): a memory of fixed size, by the paper's three choices of map, update rule and normalisation.

    `attention_normalisation` divides each read by z·φ(q). `epsilon` is added to that and to the sum that a query is
    divided by, as in the published code; keys are divided by their sum alone, and a key of zero writes nothing.
    `clamp_first_write` concerns the rule of Schlag et al. (2021), whose published form leaves the first write as it is.
    """

    feature_map: FeatureMap = field(default_factory=DPFP)
    update_rule: UpdateRule = field(default_factory=DeltaRule)
    normalisation: Normalisation = field(default_factory=SumNormalisation)
    attention_normalisation: AttentionNormalisation | None = None
    epsilon: float = 1e-6
    clamp_first_write: bool = False

    @override
    def read(self, pairs: Pairs, queries: Questions, projection: Projection | None = None) -> Reads:
        if isinstance(self.update_rule, SumRule):
            weights = self._products(pairs.keys, queries, projection)
            if self.attention_normalisation is not None:
                # z·φ(q) is the sum of the weights.
                weights = weights / (weights.sum(dim=1, keepdim=True) + self.epsilon)
            return pairs.weighted_values(weights)
        if self.attention_normalisation is not None or not isinstance(
            self.update_rule, DeltaRule | NormalisedStep | FastWeightMemoryRule
        ):
            linear = isinstance(self.update_rule, LinearRule)
            return self.read_by_definition(pairs, queries, projection, "auto" if linear else "recurrent")
        keys, queries = self._mapped_keys(pairs.keys, projection), self._mapped_queries(queries, projection)
        if isinstance(self.update_rule, DeltaRule | NormalisedStep):
            strengths = self.update_rule.coefficients(keys.unsqueeze(1), pairs.gates).erase
            return pairs.weighted_values(delta_read_weights(keys, queries, strengths.squeeze(1)))
        values = pairs.one_hot_values()
        reads = clamped_reads(keys, queries, values, pairs.gates["beta"].squeeze(1), self.clamp_first_write)
        return layer_norm(reads, reads.shape[-1:]) if self.update_rule.layer_norm else reads

    def read_by_definition(
        self, pairs: Pairs, queries: Questions, projection: Projection | None = None, backend: str = "recurrent"
    ) -> Reads:
        """The same from W itself, by default written step by step: any rule, and the oracle of the rest."""
        rule, writes, state, *_ = self.observations(pairs, projection)[-1]
        queries = self._mapped_queries(queries, projection)[:, None]
        _, state = run_rule(
            rule, writes, writes.keys, state, attention_normalisation=self.attention_normalisation, backend=backend
        )
        reads = self.update_rule.read(state.weights, queries)
        if state.normaliser is not None:
            reads = reads / (queries @ state.normaliser[..., None] + self.epsilon)
        return reads[:, 0]

    def observations(self, pairs: Pairs, projection: Projection | None = None) -> list[Observation]:
        """The writes into each memory; a first write that is not clamped is separate, by the delta rule."""
        keys, values = self._mapped_keys(pairs.keys, projection)[:, None], pairs.one_hot_values()[:, None]
        writes = WriteInputs(keys, values, pairs.gates)
        normalised = self.attention_normalisation is not None
        size = (keys.shape[0], 1, values.shape[-1], keys.shape[-1])
        state = FastWeightState.zeros(*size, normaliser=normalised, dtype=keys.dtype)
        if not isinstance(self.update_rule, FastWeightMemoryRule) or self.clamp_first_write:
            return [Observation(self.update_rule, writes, state, self.attention_normalisation)]
        first, rest = (
            WriteInputs(keys[:, :, part], values[:, :, part], {n: g[:, :, part] for n, g in writes.gates.items()})
            for part in (slice(0, 1), slice(1, None))
        )
        _, after = run_rule(DeltaRule(), first, first.keys, state, backend="recurrent")
        return [
            Observation(DeltaRule(), first, state),
            Observation(self.update_rule, rest, after, self.attention_normalisation),
        ]

    def _products(self, keys: Tensor, queries: Tensor, projection: Projection | None) -> Float[Tensor, "b t q"]:
        """φ(k_t)·φ(q), up to a factor of each sequence where attention normalisation cancels it."""
        if isinstance(self.normalisation, NoNormalisation):
            if isinstance(self.feature_map, DPFP) and queries.shape[1] == 1:
                return dpfp_products(keys, queries[:, 0], self.feature_map.nu)[..., None]
            if self.attention_normalisation is not None and isinstance(self.feature_map, RandomFeatureMap):
                assert projection is not None
                scaled = self.feature_map.log_scaled(keys, projection)
                scaled_queries = self.feature_map.log_scaled(queries, projection)
                if scaled is not None and scaled_queries is not None:
                    features, scales = scaled
                    relative = (scales - scales.amax(dim=1, keepdim=True)).exp()
                    return features @ scaled_queries[0].mT * relative[..., None]
        return self._mapped_keys(keys, projection) @ self._mapped_queries(queries, projection).mT

    def _mapped_keys(self, keys: Vectors, projection: Projection | None) -> Features:
        sums = isinstance(self.normalisation, SumNormalisation)
        if sums and isinstance(self.feature_map, DPFP):
            in_one_pass = fused_features(self.feature_map.kernel(keys.shape[-1]), "sum", keys)
            if in_one_pass is not None:
                return in_one_pass
        features = self._features(keys, projection)
        return sum_normalised(features) if sums and self.feature_map.positive else self.normalisation(features)

    def _mapped_queries(self, queries: Vectors, projection: Projection | None) -> Features:
        features = self._features(queries, projection)
        if isinstance(self.normalisation, SumNormalisation):
            return features / (features.abs().sum(dim=-1, keepdim=True) + self.epsilon)
        return self.normalisation(features)

    def _features(self, x: Vectors, projection: Projection | None) -> Features:
        if not isinstance(self.feature_map, RandomFeatureMap):
            return self.feature_map(x)
        assert projection is not None
        if self.normalisation.forgets_scale:
            scaled = self.feature_map.log_scaled(x, projection)
            if scaled is not None:
                return scaled[0]
        return self.feature_map(x, projection)
