"""Linear layers of few rows by the C++ library: the product of torch, the same bits with any threads and neighbours."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from fastweights.kernels.native import generation, library
from fastweights.kernels.native.generation import MOST_ROWS, few_rows

if (problem := library.unavailable()) is not None:
    pytest.skip(problem, allow_module_level=True)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were called."""
    made: list[str] = []
    original = library.call
    monkeypatch.setattr(library, "call", lambda name, *rest: (made.append(name), original(name, *rest))[1])
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("rows", "inner", "outputs"), [(1, 128, 1003), (1, 1, 1), (3, 17, 9), (8, 33, 130), (2, 64, 8)]
)
def test_agrees_with_the_definition(
    rows: int, inner: int, outputs: int, bias: bool, dtype: torch.dtype, calls: list[str]
) -> None:
    x, weights = torch.randn(rows, 1, inner, dtype=dtype), torch.randn(outputs, inner, dtype=dtype)
    added = torch.randn(outputs, dtype=dtype) if bias else None
    found = few_rows(x, weights, added)
    expected = linear(x.double(), weights.double(), None if added is None else added.double())
    scale = float((x.double().abs() @ weights.double().abs().T).max()) + 1
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=4 * torch.finfo(dtype).eps * scale)
    assert calls == ["linear"]


@pytest.mark.parametrize("level", library.LEVELS)
def test_every_instruction_set_agrees(level: str) -> None:
    chosen = library.instructions()
    if not library.load().fastweights_use_level(level.encode()):
        pytest.skip(f"this processor lacks {level}")
    try:
        x, weights, bias = torch.randn(2, 37), torch.randn(50, 37), torch.randn(50)
        torch.testing.assert_close(few_rows(x, weights, bias), linear(x, weights, bias), rtol=1e-5, atol=1e-5)
    finally:
        library.load().fastweights_use_level(chosen.encode())


def test_neither_threads_nor_neighbours_change_a_bit() -> None:
    x, weights, bias = torch.randn(5, 256), torch.randn(5001, 256), torch.randn(5001)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        together = few_rows(x, weights, bias)
        torch.set_num_threads(4)
        assert torch.equal(few_rows(x, weights, bias), together)
        assert torch.equal(torch.cat([few_rows(row, weights, bias) for row in x.split(1)]), together)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("case", ["many rows", "gradient", "bfloat16", "strided weights", "no row", "no word", "meta"])
def test_what_the_library_does_not_serve_is_left_to_torch(case: str, calls: list[str]) -> None:
    x, weights, bias = torch.randn(2, 16), torch.randn(9, 16), torch.randn(9)
    changed: dict[str, tuple[Tensor, Tensor, Tensor]] = {
        "many rows": (torch.randn(MOST_ROWS + 1, 16), weights, bias),
        "gradient": (x, weights.requires_grad_(), bias),
        "bfloat16": (x.bfloat16(), weights.bfloat16(), bias.bfloat16()),
        "strided weights": (x, torch.randn(16, 9).T, bias),
        "no row": (x[:0], weights, bias),
        "no word": (x, weights[:0], bias[:0]),
        "meta": (x.to("meta"), weights.to("meta"), bias.to("meta")),
    }
    found, expected = few_rows(*changed[case]), linear(*changed[case])
    assert found.shape == expected.shape
    assert found.device.type == "meta" or torch.equal(found, expected)
    assert calls == []


def test_autocast_is_left_to_torch() -> None:
    x, weights = torch.randn(2, 16), torch.randn(9, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert few_rows(x, weights).dtype == torch.bfloat16
        assert not generation.serves((x, weights), x.dtype)


def test_no_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(fastweights_linear=lambda *_: generation.OUT_OF_MEMORY)
    monkeypatch.setattr(library, "load", lambda: full)
    with pytest.raises(MemoryError, match="could not allocate"):
        generation._call("linear", b"", torch.float32)
