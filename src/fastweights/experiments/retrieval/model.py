"""The model of the synthetic experiments: one layer, one head, read once at the end (Sec. 6.1).

A pair becomes the key k = W_K [v; e(key)], a question the query q = W_Q e(key), each with a bias, and a value is its
own one-hot vector. The one-hot part of W_K [v; e(key)] is a column of W_K: each symbol is projected once, and a pair's
key is a sum of two rows.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from fastweights.experiments.retrieval.reads import FastWeightRead, Pairs, Read, Reads, SoftmaxRead
from fastweights.feature_maps import RandomFeatureMap
from fastweights.memory import Observed
from fastweights.shapes import Projection
from fastweights.update_rules.gates import Gate


class RetrievalModel(Observed, nn.Module):
    """v̂ for each queried key of sequences of (key, value) pairs, all given by their index below S."""

    def __init__(
        self, num_keys: int, attention: Read, key_dim: int = 64, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.num_keys, self.attention, self.key_dim = num_keys, attention, key_dim
        if isinstance(attention, FastWeightRead):
            attention.feature_map.feature_dim(key_dim)
        embedding_dim = 22 * num_keys // 10
        self.embedding = nn.Parameter(torch.empty(num_keys, embedding_dim))
        self.key_projection = nn.Linear(num_keys + embedding_dim, key_dim)
        self.query_projection = nn.Linear(embedding_dim, key_dim)
        self.gates: tuple[Gate, ...] = ()
        self.gate_dims: list[int] = []
        if isinstance(attention, FastWeightRead):
            self.gates, width = attention.update_rule.gates, attention.feature_map.feature_dim(key_dim)
            self.gate_dims = [{"head": 1, "key": width, "value": num_keys}[gate.per] for gate in self.gates]
            if odd := [gate.label for gate in self.gates if gate.rank or gate.each_write or not gate.from_input]:
                raise ValueError(f"update_rule: a retrieval model computes its gates from pairs, not {', '.join(odd)}")
        self.gate_projection = nn.Linear(num_keys + embedding_dim, sum(self.gate_dims)) if self.gates else None
        learned = {gate.label: gate.parameters(1, dim) for gate, dim in zip(self.gates, self.gate_dims, strict=True)}
        self.gate_parameters = nn.ModuleDict({name: nn.ParameterDict(x) for name, x in learned.items() if x})
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """As published: with fast weights W_K and W_Q are uniform in ±1/√d_key, however many inputs they have."""
        nn.init.normal_(self.embedding, generator=generator)
        for projection in (self.key_projection, self.query_projection, self.gate_projection):
            if projection is None:
                continue
            default = 1 / math.sqrt(projection.in_features)
            nn.init.uniform_(projection.bias, -default, default, generator=generator)
            if projection is self.gate_projection:
                nn.init.uniform_(projection.weight, -default, default, generator=generator)
            elif isinstance(self.attention, SoftmaxRead):
                nn.init.xavier_uniform_(projection.weight, generator=generator)
            else:
                bound = 1 / math.sqrt(self.key_dim)
                nn.init.uniform_(projection.weight, -bound, bound, generator=generator)

    def forward(
        self,
        keys: Int[Tensor, "b t"],
        values: Int[Tensor, "b t"],
        queries: Int[Tensor, "b q"],
        projection: Projection | None = None,
    ) -> Reads:
        """Write the pairs in order, then read with each query; `projection` are the features of a random map."""
        if projection is None:
            projection = self.draw_features(torch.Generator().manual_seed(0))
        pairs = Pairs(
            self._project_pairs(self.key_projection, keys, values), values, self._gates(keys, values), self.num_keys
        )
        if self.is_observed and isinstance(self.attention, FastWeightRead):
            for observation in self.attention.observations(pairs, projection):
                self.show(observation)
        return self.attention.read(pairs, self._project_queries(queries), projection)

    def draw_features(self, generator: torch.Generator) -> Projection | None:
        """Random features for one call of the model; None if its map has none."""
        return draw_features(self.attention, self.key_dim, generator)

    def _gates(self, keys: Tensor, values: Tensor) -> dict[str, Tensor]:
        """g = activation(W_g [v; e(key)]) for every gate of the rule, such as β = σ(W_β [v; e(key)]), of one head."""
        if self.gate_projection is None:
            return {}
        logits = self._project_pairs(self.gate_projection, keys, values)
        parts = logits.split(self.gate_dims, dim=-1) if len(self.gates) > 1 else (logits,)
        gates = {}
        for gate, x in zip(self.gates, parts, strict=True):
            known = gate.label in self.gate_parameters
            parameters = dict(self.gate_parameters[gate.label].named_parameters()) if known else {}
            gates[gate.label] = gate(x.mT if gate.per == "head" else x.unsqueeze(1), **parameters)
        return gates

    def _project_pairs(self, projection: nn.Linear, keys: Tensor, values: Tensor) -> Float[Tensor, "b t d"]:
        of_values, of_embeddings = projection.weight.split([self.num_keys, self.embedding.shape[1]], dim=1)
        of_keys = linear(self.embedding, of_embeddings, projection.bias)
        return lookup(of_keys, keys) + lookup(of_values.T.contiguous(), values)

    def _project_queries(self, queries: Tensor) -> Float[Tensor, "b q d"]:
        if queries.numel() < self.num_keys:
            return self.query_projection(lookup(self.embedding, queries))
        return lookup(self.query_projection(self.embedding), queries)


def draw_features(attention: Read, key_dim: int, generator: torch.Generator) -> Projection | None:
    """Random features for one call of a model; None if its map has none."""
    feature_map = attention.feature_map if isinstance(attention, FastWeightRead) else None
    return feature_map.draw(key_dim, generator) if isinstance(feature_map, RandomFeatureMap) else None


def lookup(table: Float[Tensor, "n d"], indices: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
    """The rows of a table by index: an embedding, in the form whose gradient is cheapest on a CPU."""
    return table.index_select(0, indices.flatten()).unflatten(0, indices.shape)


def retrieval_loss(reads: Reads, targets: Int[Tensor, "b q"]) -> Float[Tensor, "b q"]:
    """½ Σ_j (v*_j - v̂_j)², which for one-hot v* is ½ (|v̂|² - 2 v̂_* + 1)."""
    hits = reads.gather(2, targets[..., None])[..., 0]
    return (reads.square().sum(dim=-1) - 2 * hits + 1) / 2
