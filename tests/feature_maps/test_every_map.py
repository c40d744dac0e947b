"""What holds for every map of the table, and the maps that are one line."""

import pytest
import torch

from fastweights.feature_maps import (
    DPFP,
    FEATURE_MAPS,
    EluPlusOne,
    Favor,
    FeatureMap,
    Identity,
    Relu,
    SiLU,
    SoftmaxFeatures,
    Tanh,
)

MAPS: list[FeatureMap] = [
    *(cls() for cls in FEATURE_MAPS.values()),
    DPFP(3),
    Favor(9, "relu"),
    Favor(9, stabilised=True),
]


@pytest.mark.parametrize("feature_map", MAPS, ids=str)
def test_maps_vectors_one_by_one_into_the_promised_dimension(feature_map: FeatureMap) -> None:
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    features = feature_map(x)
    assert features.shape == (2, 3, feature_map.feature_dim(5))
    torch.testing.assert_close(features[1, 2], feature_map(x[1, 2]), rtol=1e-12, atol=1e-14)
    if feature_map.positive:
        assert (features >= 0).all()
    else:
        assert (feature_map(-x) < 0).any()


@pytest.mark.parametrize("feature_map", MAPS, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_keeps_the_precision_it_was_given(feature_map: FeatureMap, dtype: torch.dtype) -> None:
    x = torch.randn(4, 5, dtype=torch.float64)
    expected, actual = feature_map(x), feature_map(x.to(dtype))
    assert actual.dtype == dtype
    error = (actual.double() - expected).norm() / expected.norm()
    assert error < 8 * torch.finfo(dtype).eps


@pytest.mark.parametrize("feature_map", MAPS, ids=str)
def test_gradients_are_those_of_the_map(feature_map: FeatureMap) -> None:
    x = (torch.randn(3, 4, dtype=torch.float64) + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(feature_map, x)


@pytest.mark.parametrize("feature_map", MAPS, ids=str)
def test_is_a_value(feature_map: FeatureMap) -> None:
    assert feature_map == type(feature_map)(**vars(feature_map))
    assert hash(feature_map) == hash(type(feature_map)(**vars(feature_map)))


def test_one_line_maps_match_their_definition() -> None:
    x = torch.randn(20, dtype=torch.float64)
    assert torch.equal(Identity()(x), x)
    assert torch.equal(Tanh()(x), torch.tanh(x))
    torch.testing.assert_close(SiLU()(x), x / (1 + torch.exp(-x)))
    torch.testing.assert_close(SoftmaxFeatures()(x), x.exp() / x.exp().sum(-1, keepdim=True))
    # log 1, 2, 5 in proportion, and no overflow
    torch.testing.assert_close(
        SoftmaxFeatures()(1000 + torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()),
        torch.tensor([0.125, 0.25, 0.625], dtype=torch.float64),
    )
    assert torch.equal(Relu()(x), torch.where(x > 0, x, 0.0))


def test_table_6_and_the_dimensions_of_section_5() -> None:
    assert [Favor(m).feature_dim(64) for m in (128, 192, 256)] == [256, 384, 512]
    assert [DPFP(nu).feature_dim(64) for nu in (2, 3, 4)] == [256, 384, 512]
    assert EluPlusOne().feature_dim(64) == Identity().feature_dim(64) == Tanh().feature_dim(64) == 64
    assert [DPFP(nu).feature_dim(64) for nu in (1, 2, 3)] == [128, 256, 384], "Figure 2"
    assert Favor(16).feature_dim(16) == DPFP(1).feature_dim(16) == 32, "Table 5: 8 heads of 32 are 256"
