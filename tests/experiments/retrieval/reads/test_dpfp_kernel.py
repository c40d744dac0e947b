"""φ(k)·φ(q) of DPFP as a quadratic form, against the features themselves."""

import warnings

import pytest
import torch
from torch.testing import assert_close

from fastweights.experiments.retrieval.reads.dpfp_kernel import coincidences, dpfp_products
from fastweights.feature_maps import DPFP


@pytest.mark.parametrize("nu", [1, 2, 3, 4, 5, 6, 9])
def test_matches_the_features(nu: int) -> None:
    keys = torch.randn(4, 11, 5, dtype=torch.float64, requires_grad=True)
    query = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nu >= d is possible and said to gain nothing
        expected = (DPFP(nu)(keys) * DPFP(nu)(query)[:, None]).sum(dim=-1)
    actual = dpfp_products(keys, query, nu)
    assert_close(actual, expected, rtol=1e-12, atol=1e-14)
    slope = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (keys, query), slope)
    assert_close(torch.autograd.grad(actual, (keys, query), slope), wanted, rtol=1e-12, atol=1e-14)


def test_gradients_by_finite_differences() -> None:
    keys = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    query = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda k, q: dpfp_products(k, q, 2), (keys, query))


def test_counts_follow_the_signs_of_the_query() -> None:
    # Places in r = relu([x, -x]) are 0, 4 and 2 of 6: none is one step from another, and all are two steps apart.
    counts = coincidences(torch.tensor([[1.0, -1.0, 1.0]]), nu=1)
    assert counts.tolist() == [[[0, 0, 0], [0, 0, 0], [0, 0, 0]]]
    counts = coincidences(torch.tensor([[1.0, -1.0, 1.0]]), nu=2)
    assert counts.tolist() == [[[0, 1, 1], [1, 0, 1], [1, 1, 0]]]


def test_a_query_of_zero_has_nothing_in_common_with_any_key() -> None:
    keys = torch.randn(1, 4, 6, requires_grad=True)
    query = torch.zeros(1, 6, requires_grad=True)
    products = dpfp_products(keys, query, 3)
    assert products.tolist() == [[0.0] * 4]
    assert all(x.abs().sum() == 0 for x in torch.autograd.grad(products.sum(), (keys, query)))
