"""Products by oneDNN: right in every layout and derivative, for large float32 matrices alone, gone afterwards."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fastweights.kernels import products
from fastweights.kernels.products import are_replaced, best_products, mkl_falls_short, onednn_products

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "part of wider rows": lambda x: torch.cat([x, x], dim=1)[:, : x.shape[1]],
    "every second row": lambda x: x.repeat_interleave(2, dim=0)[::2],
    "every second column": lambda x: x.repeat_interleave(2, dim=1)[:, ::2],
    "one row for all": lambda x: x[:1].expand_as(x),
}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the products that oneDNN has made."""
    shapes: list[tuple[int, ...]] = []
    product = products._product

    def counted(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        shapes.append((*a.shape, b.shape[1]))
        return product(a, b, bias)

    monkeypatch.setattr(products, "_product", counted)
    return shapes


def assert_close(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == torch.float32
    assert (found.double() - expected).abs().max() <= 4e-6 * expected.abs().max()


@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("shape", [(257, 96, 130), (40, 3000, 65), (2000, 33, 40), (1, 1024, 1025)])
def test_products_of_every_layout_are_those_of_float64(first: str, second: str, shape: tuple[int, int, int]) -> None:
    rows, inner, columns = shape
    a, b, bias = LAYOUTS[first](torch.randn(rows, inner)), LAYOUTS[second](torch.randn(inner, columns)), torch.randn(1)
    with onednn_products():
        found = torch.mm(a, b), torch.addmm(bias.expand(columns), a, b), torch.addmm(bias, a, b)
    expected, terms = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    for one, shift in zip(found, (torch.zeros(1), bias, bias), strict=True):
        assert one.is_contiguous()
        assert ((one.double() - expected - shift.double()).abs() <= 1e-6 * (terms + shift.abs())).all()


def test_a_layer_and_its_derivatives_are_those_of_float64(used: list[tuple[int, ...]]) -> None:
    layer, x = torch.nn.Linear(96, 130), torch.randn(3, 100, 96)

    def gradients(layer: torch.nn.Linear, x: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_()
        y = layer(x)
        first = torch.autograd.grad((y**3).sum(), [x, *layer.parameters()], create_graph=True)
        second = torch.autograd.grad(sum((one**2).sum() for one in first), [x, layer.weight])  # type: ignore[arg-type]
        return [y, *first, *second]

    with onednn_products():
        found = gradients(layer, x)
    assert (300, 96, 130) in used
    assert (300, 130, 96) in used
    assert (130, 300, 96) in used
    for one, expected in zip(found, gradients(layer.double(), x.double()), strict=True):
        assert_close(one, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64, torch.int64])
def test_other_numbers_are_multiplied_as_before(dtype: torch.dtype, used: list[tuple[int, ...]]) -> None:
    a, b = (10 * torch.randn(110, 110)).to(dtype), (10 * torch.randn(110, 110)).to(dtype)
    expected = torch.mm(a, b), torch.addmm(b, a, b)
    with onednn_products():
        found = torch.mm(a, b), torch.addmm(b, a, b)
    assert not used
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_small_products_and_other_sums_are_as_before(used: list[tuple[int, ...]]) -> None:
    a, b, wide = torch.randn(100, 100), torch.randn(100, 100), torch.randn(120, 120)

    def sums() -> tuple[Tensor, ...]:
        return torch.mm(a, b), torch.addmm(wide[0], wide, wide, beta=2), torch.addmm(wide, wide, wide, alpha=0.5)

    expected = sums()
    with onednn_products():
        found = sums()
    assert not used
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("shapes", [((300, 200), (100, 300)), ((300,), (300, 300))])
def test_what_does_not_fit_is_refused_as_before(shapes: tuple[tuple[int, ...], ...]) -> None:
    first, second = (torch.randn(shape) for shape in shapes)
    with pytest.raises(RuntimeError) as plain:
        torch.mm(first, second)
    with onednn_products(), pytest.raises(RuntimeError) as replaced:
        torch.mm(first, second)
    assert str(replaced.value) == str(plain.value)


def test_the_products_of_pytorch_come_back_whatever_happens(used: list[tuple[int, ...]]) -> None:
    a = torch.randn(200, 200)
    expected = a @ a

    def interrupted() -> None:
        with onednn_products():
            with onednn_products():
                assert are_replaced()
            assert are_replaced()
            torch.mm(a, a)
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert not are_replaced()
    assert len(used) == 1
    assert torch.equal(a @ a, expected)
    assert len(used) == 1


@pytest.mark.parametrize(
    ("vendor", "capability", "short"),
    [
        ("AuthenticAMD", "AVX512", True),
        ("AuthenticAMD", "AVX2", False),
        ("GenuineIntel", "AVX512", False),
    ],
)
def test_onednn_is_taken_where_mkl_leaves_wide_registers_unused(
    vendor: str, capability: str, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "_vendor", lambda: vendor)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert mkl_falls_short() is short
    with best_products():
        assert are_replaced() is short
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert not mkl_falls_short()
