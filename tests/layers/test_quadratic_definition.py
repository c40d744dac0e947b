"""Encoder, decoder and cross-attention under the sum rule equal the quadratic definition, with padding anywhere.

y_i = Σ_j m_ij κ(q_i, k_j) v_j / Σ_j m_ij κ(q_i, k_j)     κ(q, k) = φ(q)·φ(k), or exp(q·k / √d) for softmax
"""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from fastweights.feature_maps import DPFP, EluPlusOne, Favor, FeatureMap
from fastweights.feature_maps.base import RandomFeatureMap
from fastweights.layers import FastWeightAttention, FastWeightCrossAttention, SoftmaxAttention, SoftmaxCrossAttention
from fastweights.memory import NoNormalisation
from fastweights.update_rules import SumRule

DIM, HEADS = 8, 2
EXACT = {"rtol": 1e-12, "atol": 1e-12}
KERNELS: dict[str, FeatureMap | None] = {
    "softmax": None,
    "linear": EluPlusOne(),
    "dpfp1": DPFP(1),
    "dpfp2": DPFP(2),
    "performer": Favor(6, stabilised=True),
    "performer-literal": Favor(6),
}
MASKS: dict[str, list[list[int]]] = {
    "none": [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1]],
    "right": [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]],
    "left": [[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]],
    "inside": [[1, 0, 0, 1, 1], [1, 0, 1, 0, 1]],
    "everything": [[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]],
}


def self_attention(name: str, causal: bool) -> nn.Module:
    feature_map = KERNELS[name]
    if feature_map is None:
        return SoftmaxAttention(DIM, HEADS, causal=causal).double().eval()
    choice = {"feature_map": feature_map, "update_rule": SumRule(), "normalisation": NoNormalisation()}
    layer = FastWeightAttention(DIM, HEADS, attention_normalisation=True, causal=causal, **choice)  # type: ignore[arg-type]
    return layer.double().eval()


def cross_attention(name: str) -> nn.Module:
    feature_map = KERNELS[name]
    if feature_map is None:
        return SoftmaxCrossAttention(DIM, HEADS).double().eval()
    choice = {"feature_map": feature_map, "update_rule": SumRule(), "normalisation": NoNormalisation()}
    return FastWeightCrossAttention(DIM, HEADS, attention_normalisation=True, **choice).double().eval()  # type: ignore[arg-type]


def kernel_of(layer: nn.Module) -> Callable[[Tensor, Tensor], float]:
    """κ of a layer, for two single vectors."""
    if isinstance(layer, SoftmaxAttention | SoftmaxCrossAttention):
        return lambda q, k: math.exp((q @ k).item() / math.sqrt(len(q)))
    feature_map, projection = layer.mapping.feature_map, layer.mapping.projection
    if isinstance(feature_map, RandomFeatureMap):
        return lambda q, k: (feature_map(q, projection) @ feature_map(k, projection)).item()
    return lambda q, k: (feature_map(q) @ feature_map(k)).item()


def definition(layer: nn.Module, queries: Tensor, keys: Tensor, values: Tensor, real: Tensor, causal: bool) -> Tensor:
    """The equation for projected b t (h d) vectors, one sum at a time, through the output projection."""
    kernel, dim = kernel_of(layer), DIM // HEADS
    reads = torch.zeros_like(queries)
    for b, i in [(b, i) for b in range(len(queries)) for i in range(queries.shape[1])]:
        for head in range(HEADS):
            part = slice(head * dim, (head + 1) * dim)
            seen = [j for j in range(keys.shape[1]) if real[b, j] and (j <= i or not causal)]
            weights = [kernel(queries[b, i, part], keys[b, j, part]) for j in seen]
            if sum(weights) > 0:
                total = sum(w * values[b, j, part] for w, j in zip(weights, seen, strict=True))
                reads[b, i, part] = total / sum(weights)
    return layer.output(reads)


@pytest.mark.parametrize("pattern", MASKS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_self_attention(name: str, causal: bool, pattern: str) -> None:
    layer, real = self_attention(name, causal), torch.tensor(MASKS[pattern]).bool()
    x = torch.randn(2, 5, DIM, dtype=torch.float64)
    mask = None if pattern == "none" else real
    filled = x.masked_fill(~real[..., None], math.nan)
    with torch.no_grad():
        queries, keys, values = layer.projection(x.masked_fill(~real[..., None], 0.0)).chunk(3, dim=-1)
        expected = definition(layer, queries, keys, values, real, causal)
        assert_close(layer.attend(filled, mask)[real], expected[real], **EXACT)
        assert_close(layer(filled, None, mask)[0][real], expected[real], **EXACT)
        if causal:
            # Step by step, from the state of the step before.
            state, reads = None, []
            for step in range(5):
                y, state = layer(filled[:, step : step + 1], state, real[:, step : step + 1])
                reads.append(y)
            assert_close(torch.cat(reads, dim=1)[real], expected[real], **EXACT)


@pytest.mark.parametrize("source_pattern", MASKS)
@pytest.mark.parametrize("pattern", ["none", "inside"])
@pytest.mark.parametrize("name", KERNELS)
def test_cross_attention(name: str, pattern: str, source_pattern: str) -> None:
    layer = cross_attention(name)
    real, source_real = (torch.tensor(MASKS[which]).bool() for which in (pattern, source_pattern))
    x, source = (torch.randn(2, 5, DIM, dtype=torch.float64) for _ in range(2))
    mask, source_mask = (None if m.all() else m for m in (real, source_real))
    filled, filled_source = (y.masked_fill(~m[..., None], math.nan) for y, m in ((x, real), (source, source_real)))
    with torch.no_grad():
        keys, values = layer.source_projection(source.masked_fill(~source_real[..., None], 0.0)).chunk(2, dim=-1)
        queries = layer.query_projection(x)
        expected = definition(layer, queries, keys, values, source_real, causal=False)
        assert_close(layer.attend(filled, filled_source, mask, source_mask)[real], expected[real], **EXACT)
        memory = layer.write(filled_source, mask=source_mask)
        y, after = layer(filled, memory, mask)
        assert_close(y[real], expected[real], **EXACT)
        assert after is memory
        assert memory.steps.tolist() == source_real.sum(dim=1).tolist()
        # In two pieces, the second behind the first.
        masks = [None if source_mask is None else part for part in source_real.split([2, 3], dim=1)]
        pieces = layer.write(filled_source[:, 2:], layer.write(filled_source[:, :2], mask=masks[0]), masks[1])
        assert_close(layer(filled, pieces, mask)[0][real], expected[real], **EXACT)
