"""Sum normalisation in a few passes, against the class that the layers use."""

import torch
from torch.testing import assert_close

from fastweights.experiments.retrieval.reads.sum_normalised import sum_normalised
from fastweights.memory import SumNormalisation


def test_matches_the_normalisation_of_the_layers() -> None:
    features = torch.rand(3, 5, 7, dtype=torch.float64).square().requires_grad_()
    actual, expected = sum_normalised(features), SumNormalisation()(features)
    assert_close(actual, expected, rtol=1e-14, atol=0)
    slope = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, features, slope)
    assert_close(torch.autograd.grad(actual, features, slope), wanted, rtol=1e-12, atol=1e-14)


def test_gradients_by_finite_differences() -> None:
    features = (torch.rand(2, 4, dtype=torch.float64) + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(sum_normalised, features)


def test_features_that_vanish_stay_zero_and_pass_no_gradient() -> None:
    features = torch.zeros(2, 4)
    features[1] = 1e-30
    features.requires_grad_()
    normalised = sum_normalised(features)
    assert normalised.abs().max() == 0
    assert torch.autograd.grad(normalised.sum(), features)[0].abs().max() == 0
