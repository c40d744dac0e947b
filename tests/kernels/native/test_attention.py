"""Attention by the C++ kernel against its definition in PyTorch: reads, gradients, masks, extremes, threads."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights.feature_maps import DPFP, EluPlusOne, Favor, FeatureMap
from fastweights.kernels.native import library
from fastweights.kernels.native.attention import Masking
from fastweights.layers.feature_projection import FeatureProjection
from fastweights.memory import NoNormalisation, SumNormalisation, WriteInputs
from fastweights.memory.whole_sequence import attend

if (problem := library.unavailable()) is not None:
    pytest.skip(problem, allow_module_level=True)

MAPS = [EluPlusOne(), DPFP(1), DPFP(3), Favor(1, stabilised=True), Favor(11, stabilised=True)]
SHAPES = [(1, 1, 1, 3, 1), (2, 3, 17, 4, 5), (2, 1, 40, 16, 33), (1, 2, 8, 33, 8)]
"""b, h, t, d, v."""


def example(
    shape: tuple[int, ...], steps: int | None = None, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as a layer hands them over: parts of one b t (h ·) projection."""
    b, h, t, d, v = shape
    s = t if steps is None else steps
    q, k, x = (
        torch.randn(b, n, h, dim + 1, dtype=dtype)[..., :dim].transpose(1, 2) for n, dim in ((t, d), (s, d), (s, v))
    )
    return q.requires_grad_(), k.requires_grad_(), x.requires_grad_()


def by_definition(mapping: FeatureProjection, masking: Masking, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    keys, scales = mapping(k)
    writes = WriteInputs(keys, v, {}, masking.mask, scales)
    return attend(writes, mapping(q)[0], normalised=True, causal=masking.causal)


def by_kernel(mapping: FeatureProjection, masking: Masking, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    found = mapping.attend(q, k, v, masking, lambda q, k, v: by_definition(mapping, masking, q, k, v))
    assert found is not None
    return found


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("feature_map", MAPS, ids=str)
def test_reads_and_gradients_are_those_of_the_definition(
    feature_map: FeatureMap, shape: tuple[int, ...], causal: bool, masked: bool
) -> None:
    if isinstance(feature_map, DPFP) and shape[3] <= feature_map.nu:
        pytest.skip("more shifts than such keys have use for")
    tensors = example(shape, None if causal else shape[2] + 2)
    mask = torch.rand(shape[0], tensors[1].shape[2]) > 0.4 if masked else None
    mapping, masking = FeatureProjection(shape[3], feature_map, NoNormalisation()).double(), Masking(mask, causal)
    found, expected = by_kernel(mapping, masking, *tensors), by_definition(mapping, masking, *tensors)
    assert_close(found, expected, rtol=1e-11, atol=1e-13)
    gradient = torch.randn_like(expected)
    for one, other in zip(
        torch.autograd.grad(found, tensors, gradient), torch.autograd.grad(expected, tensors, gradient), strict=True
    ):
        assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("feature_map", MAPS[::2], ids=str)
def test_float32_is_as_exact_as_its_numbers(feature_map: FeatureMap) -> None:
    exact = example((2, 3, 17, 8, 8))
    mapping, masking = FeatureProjection(8, feature_map, NoNormalisation()), Masking(None, True)
    single = [x.detach().float().requires_grad_() for x in exact]
    found, expected = by_kernel(mapping, masking, *single), by_definition(mapping.double(), masking, *exact)
    assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    gradient = torch.randn_like(expected)
    for one, other in zip(
        torch.autograd.grad(found, single, gradient.float()),
        torch.autograd.grad(expected, exact, gradient),
        strict=True,
    ):
        assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf, 3e38, -1e19, 1e13, 1e-20, 0.0])
@pytest.mark.parametrize("feature_map", [MAPS[0], MAPS[1], MAPS[4]], ids=str)
def test_extremes_are_treated_as_in_the_definition(feature_map: FeatureMap, special: float) -> None:
    tensors = example((2, 1, 6, 4, 3), dtype=torch.float32)
    with torch.no_grad():
        tensors[1][0, 0, 2, 1] = special
        tensors[0][0, 0, 4, 3] = special
    mapping, masking = FeatureProjection(4, feature_map, NoNormalisation()), Masking(None, True)
    with torch.no_grad():
        found, expected = by_kernel(mapping, masking, *tensors), by_definition(mapping, masking, *tensors)
    assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert found[1].isfinite().all(), "the other row does not see it"


@pytest.mark.parametrize("causal", [False, True])
def test_sizes_of_random_features_may_differ_between_steps(causal: bool) -> None:
    q, k, v = example((2, 2, 12, 8, 4))
    sizes = torch.tensor([1e-3, 1.0, 30.0, 300.0], dtype=torch.float64).repeat(3)[:, None]
    tensors = tuple(x.detach().requires_grad_() for x in (q * sizes, k * sizes.flip(0), v))
    mapping, masking = FeatureProjection(8, MAPS[4], NoNormalisation()).double(), Masking(None, causal)
    found, expected = by_kernel(mapping, masking, *tensors), by_definition(mapping, masking, *tensors)
    assert_close(found, expected, rtol=1e-10, atol=1e-12)
    gradient = torch.randn_like(expected)
    for one, other in zip(
        torch.autograd.grad(found, tensors, gradient), torch.autograd.grad(expected, tensors, gradient), strict=True
    ):
        assert_close(one, other, rtol=1e-8, atol=1e-9)


def test_nothing_to_see_reads_zero() -> None:
    tensors = example((2, 2, 5, 4, 3))
    mask = torch.zeros(2, 5, dtype=torch.bool)
    for feature_map in MAPS[:2] + MAPS[4:]:
        mapping = FeatureProjection(4, feature_map, NoNormalisation()).double()
        found = by_kernel(mapping, Masking(mask, False), *tensors)
        assert not found.any()
        for gradient in torch.autograd.grad(found.sum(), tensors):
            assert not gradient.any()


@pytest.mark.parametrize(("queries", "steps"), [(0, 3), (3, 0)])
def test_empty_sequences_need_no_kernel(queries: int, steps: int) -> None:
    mapping = FeatureProjection(4, DPFP(1), NoNormalisation()).double()
    tensors = example((2, 2, queries, 4, 3), steps)
    assert mapping.attend(*tensors, Masking(None, False), lambda q, k, v: v) is None
    found = by_definition(mapping, Masking(None, False), *tensors)
    assert found.shape == (2, 2, queries, 3)
    assert not found.any()


@pytest.mark.parametrize("feature_map", MAPS[::2], ids=str)
def test_second_derivatives(feature_map: FeatureMap) -> None:
    mapping, masking = FeatureProjection(4, feature_map, NoNormalisation()).double(), Masking(None, True)
    tensors = example((1, 1, 3, 4, 2))
    assert torch.autograd.gradgradcheck(lambda *x: by_kernel(mapping, masking, *x), tensors)


def test_second_derivatives_are_those_of_the_draw_that_was_read() -> None:
    from fastweights.layers import FastWeightAttention
    from fastweights.update_rules import SumRule

    layer = FastWeightAttention(
        8, 2, feature_map=Favor(5, stabilised=True), update_rule=SumRule(), normalisation=NoNormalisation(),
        attention_normalisation=True,
    ).double()  # fmt: skip
    x = torch.randn(1, 4, 8, dtype=torch.float64, requires_grad=True)
    layer.eval()
    found = []
    for redraws in (False, True):
        (gradient,) = torch.autograd.grad(layer.attend(x).square().sum(), x, create_graph=True)
        if redraws:
            drawn = layer.mapping.projection
            layer.resample()
        found.append(torch.autograd.grad(gradient.square().sum(), x)[0])
        if redraws:
            layer.mapping.projection = drawn
    assert_close(found[0], found[1])


def test_the_number_of_threads_changes_nothing() -> None:
    mapping, masking = FeatureProjection(16, DPFP(2), NoNormalisation()), Masking(None, True)
    tensors = example((16, 4, 30, 16, 16), dtype=torch.float32)
    found = []
    threads = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        reads = by_kernel(mapping, masking, *tensors)
        found.append([reads, *torch.autograd.grad(reads.sum(), tensors)])
    torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_other_tensors_and_normalisations_have_no_kernel() -> None:
    q, k, v = example((1, 1, 3, 4, 2))
    masking = Masking(None, False)
    for mapping, tensors in [
        (FeatureProjection(4, DPFP(1), SumNormalisation()), (q, k, v)),
        (FeatureProjection(4, Favor(3), NoNormalisation()), (q, k, v)),
        (FeatureProjection(4, DPFP(1), NoNormalisation()), (q.bfloat16(), k.bfloat16(), v.bfloat16())),
        (FeatureProjection(4, DPFP(1), NoNormalisation()), (q.float(), k, v)),
    ]:
        assert mapping.attend(*tensors, masking, lambda q, k, v: v) is None
