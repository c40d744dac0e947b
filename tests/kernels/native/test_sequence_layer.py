"""What lies between the projections of a layer as one node, against maps, gates and the rule by their definitions."""

import pytest
import torch

from fastweights import EluPlusOne, SumNormalisation, fast_weight_scan
from fastweights.feature_maps.elu import elu_plus_one
from fastweights.kernels.features import NUMBERS
from fastweights.kernels.native import library
from fastweights.kernels.native.sequence_layer import LayerShape, mix

if (problem := library.unavailable()) is not None:
    pytest.skip(problem, allow_module_level=True)


@pytest.mark.parametrize("strength", [None, 1.0, 2.0])
@pytest.mark.parametrize(("heads", "key_dim", "value_dim"), [(1, 3, 2), (2, 8, 5), (3, 16, 16)])
def test_reads_weights_and_gradients_are_those_of_the_definition(
    heads: int, key_dim: int, value_dim: int, strength: float | None
) -> None:
    compiled = EluPlusOne().kernel(key_dim)
    assert compiled is not None
    shape = LayerShape(heads, key_dim, value_dim, compiled, NUMBERS["sum"], strength)
    sizes = [heads * key_dim, heads * key_dim, heads * value_dim, *([heads] if strength is not None else [])]
    projected = torch.randn(2, 37, sum(sizes), dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, heads, value_dim, key_dim, dtype=torch.float64, requires_grad=True)
    found = mix(projected, weights, shape)

    parts = [part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in projected.split(sizes, dim=-1)]
    queries, keys = (SumNormalisation()(elu_plus_one(x)) for x in parts[:2])
    ones = torch.ones(2, heads, 37, dtype=torch.float64)
    beta = None if strength is None else strength * parts[3][..., 0].sigmoid()
    erase, write = (torch.zeros_like(ones), ones) if beta is None else (beta, beta)
    expected = fast_weight_scan(queries, keys, parts[2], erase, write, weights, backend="recurrent")

    directions = [torch.randn_like(y) for y in expected]
    for ours, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-11, atol=1e-13)
    gradients = [torch.autograd.grad(outputs, (projected, weights), directions) for outputs in (found, expected)]
    for ours, exact in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-9, atol=1e-11)


def test_gradients_of_one_result_alone() -> None:
    compiled = EluPlusOne().kernel(4)
    assert compiled is not None
    shape = LayerShape(2, 4, 3, compiled, NUMBERS["sum"], 1.0)
    projected = torch.randn(1, 9, 24, dtype=torch.float64, requires_grad=True)
    weights = torch.zeros(1, 2, 3, 4, dtype=torch.float64)
    reads, final = mix(projected, weights, shape)
    (of_reads,) = torch.autograd.grad(reads.sum(), projected, retain_graph=True)
    (of_final,) = torch.autograd.grad(final.sum(), projected, retain_graph=True)
    (of_both,) = torch.autograd.grad(reads.sum() + final.sum(), projected)
    torch.testing.assert_close(of_reads + of_final, of_both, rtol=1e-12, atol=1e-14)
    assert of_final[..., :8].abs().max() == 0
    assert of_final[..., 8:16].abs().max() > 0
