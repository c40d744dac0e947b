"""Cross-attention against direct formulas."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from combinations import usable_backends
from fastweights.feature_maps import EluPlusOne
from fastweights.layers import FastWeightCrossAttention
from fastweights.memory import NoNormalisation
from fastweights.update_rules import SumRule

BACKENDS = usable_backends(torch.float64)
EXACT = {"rtol": 1e-10, "atol": 1e-12}


def elu(x: Tensor) -> Tensor:
    return torch.where(x > 0, x + 1, x.exp())


def sum_normalised(x: Tensor) -> Tensor:
    return elu(x) / elu(x).sum(-1, keepdim=True)


def delta_memory(keys: Tensor, values: Tensor, beta: Tensor) -> Tensor:
    weights = torch.zeros(values.shape[-1], keys.shape[-1], dtype=torch.float64)
    for key, value, strength in zip(keys, values, beta, strict=True):
        weights = weights + strength * torch.outer(value - weights @ key, key)
    return weights


@pytest.mark.parametrize("backend", BACKENDS)
def test_cross_attention_is_the_direct_formula(backend: str) -> None:
    more = {"key_dim": 4, "feature_map": EluPlusOne(), "backend": backend}
    source, x = torch.randn(1, 7, 8, dtype=torch.float64), torch.randn(1, 5, 8, dtype=torch.float64)
    kernel_layer = FastWeightCrossAttention(
        8, 1, update_rule=SumRule(), normalisation=NoNormalisation(), attention_normalisation=True, **more
    ).double()
    k, v = (source[0] @ kernel_layer.source_projection.weight.T).split([4, 8], dim=-1)
    q = x[0] @ kernel_layer.query_projection.weight.T
    kernel = elu(q) @ elu(k).T
    expected = kernel / kernel.sum(-1, keepdim=True) @ v @ kernel_layer.output.weight.T
    y, state = kernel_layer(x, kernel_layer.write(source))
    assert_close(y[0], expected, **EXACT)
    assert state.steps.tolist() == [7]

    delta = FastWeightCrossAttention(8, 1, **more).double()
    k, v, b = (source[0] @ delta.source_projection.weight.T).split([4, 8, 1], dim=-1)
    weights = delta_memory(sum_normalised(k), v, b[:, 0].sigmoid())
    q = sum_normalised(x[0] @ delta.query_projection.weight.T)
    y, state = delta(x, delta.write(source))
    assert_close(state.weights[0, 0], weights, **EXACT)
    assert_close(y[0], q @ weights.T @ delta.output.weight.T, **EXACT)


def test_cross_attention_without_a_memory_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`write\(source\)` made; got None"):
        FastWeightCrossAttention(8, 2)(torch.randn(1, 2, 8))
