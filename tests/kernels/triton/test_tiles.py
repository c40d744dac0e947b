"""The inverse of a unit lower triangular matrix, and products of decays."""

import math

import pytest
import torch
import triton
import triton.language as tl

from fastweights.kernels.triton.tiles import between, cumulative_logs, invert, load_tile, round_to_tf32, store_tile


@triton.jit
def invert_kernel(system, inverse, C: tl.constexpr, LEVELS: tl.constexpr):
    found = invert(load_tile(system, 0, 0, C, 1, C, C, C, C), C, LEVELS, "ieee")
    store_tile(inverse, found, 0, 0, C, 1, C, C, C, C)


@triton.jit
def decays_kernel(decay, products, C: tl.constexpr):
    inner = tl.arange(0, C)
    high, low, before_high, before_low = cumulative_logs(tl.load(decay + inner))
    allowed = inner[:, None] >= inner[None, :]
    store_tile(products, between(high, low, high, low, allowed), 0, 0, C, 1, C, C, C, C)
    earlier = between(before_high, before_low, high, low, inner[:, None] > inner[None, :])
    store_tile(products + C * C, earlier, 0, 0, C, 1, C, C, C, C)


@triton.jit
def rounding_kernel(x, y, N: tl.constexpr):
    tl.store(y + tl.arange(0, N), round_to_tf32(tl.load(x + tl.arange(0, N))))


@pytest.mark.parametrize(("size", "levels"), [(16, 4), (32, 5), (64, 6)])
def test_the_inverse_of_a_triangle(size: int, levels: int) -> None:
    system = torch.randn(size, size).tril(-1) / size**0.5
    inverse = torch.empty(size, size)
    invert_kernel[(1,)](system, inverse, size, levels)
    expected = torch.linalg.inv(torch.eye(size).double() + system.double())
    torch.testing.assert_close(inverse.double(), expected, rtol=0, atol=1e-6 * expected.abs().max().item())
    assert torch.equal(inverse, inverse.tril())


def test_products_of_decays_are_products() -> None:
    decay = 1 - 0.5 * torch.rand(32)
    decay[11] = 0.0
    decay[20] = 1e-38
    found = torch.empty(2, 32, 32)
    decays_kernel[(1,)](decay, found, 32)
    exact = decay.double()
    for i in range(32):
        for j in range(32):
            assert_product(found[0, i, j].item(), exact[j + 1 : i + 1].prod().item() if i >= j else 0.0)
            assert_product(found[1, i, j].item(), exact[j + 1 : i].prod().item() if i > j else 0.0)


def assert_product(actual: float, expected: float) -> None:
    """As good as the exponential of a float32 number can be: its rounding error counts as a factor."""
    digits = 2**-23 * (2 - math.log(expected)) if expected else 0.0
    assert actual == pytest.approx(expected, rel=digits, abs=2e-45)


def test_tf32_has_ten_digits_after_the_first() -> None:
    x = torch.cat([torch.randn(59), torch.tensor([0.0, 1.0, -1e30, float("nan"), float("inf")])])
    y = torch.empty_like(x)
    rounding_kernel[(1,)](x, y, len(x))
    finite = x.isfinite()
    assert ((y - x).abs()[finite] <= x.abs()[finite] * 2**-11).all()
    assert ((y.view(torch.int32) & 0x1FFF)[finite] == 0).all()
    assert torch.equal(y.isnan(), x.isnan())
    assert y[-1] == torch.inf
