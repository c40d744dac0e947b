"""Memory for large results: laid out as asked, kept when it is free, never shared by two results."""

import gc
import multiprocessing
import sys
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from fastweights.feature_maps.dpfp import _COMPILED
from fastweights.kernels.native import buffer_pool
from fastweights.kernels.native.buffer_pool import empty, empty_like
from fastweights.memory import native

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="large results are kept on Linux only")
needs_kernel = pytest.mark.skipif(native.unavailable() is not None, reason="no native kernel here")

MEBI = 1 << 20


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, object]]:
    """The memory that is kept, empty before each test."""
    unused: dict[int, object] = {}
    monkeypatch.setattr(buffer_pool, "_unused", unused)
    yield unused
    gc.collect()


def large(mebibytes: int) -> Tensor:
    return empty((mebibytes * MEBI // 4,), torch.empty(0))


def test_a_freed_result_makes_room_for_the_next(nothing_kept: dict[int, object]) -> None:
    first = large(8)
    address = first.data_ptr()
    second = large(8)
    assert second.data_ptr() != address
    del first
    assert len(nothing_kept) == 1
    third = large(7)
    assert third.data_ptr() == address
    assert not nothing_kept
    assert second.data_ptr() != address


def test_a_view_keeps_its_memory(nothing_kept: dict[int, object]) -> None:
    whole = large(8).fill_(3.0)
    part = whole[-5:].view(5, 1).transpose(0, 1)
    del whole
    assert not nothing_kept
    other = large(8).fill_(7.0)
    assert part.tolist() == [[3.0] * 5]
    assert other.unique().tolist() == [7.0]
    del part
    assert len(nothing_kept) == 1


def test_much_larger_memory_is_left_for_larger_results(nothing_kept: dict[int, object]) -> None:
    del nothing_kept
    big = large(32)
    address = big.data_ptr()
    del big
    small = large(8)
    assert small.data_ptr() != address
    assert large(20).data_ptr() == address


def test_the_smallest_that_fits_is_taken() -> None:
    big, small = large(14), large(10)
    addresses = big.data_ptr(), small.data_ptr()
    del big, small
    assert large(8).data_ptr() == addresses[1]


def test_what_is_kept_is_bounded(nothing_kept: dict[int, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_pool, "MAX_UNUSED", 40 * MEBI)
    results = [large(16) for _ in range(5)]
    newest = results[-2:]
    addresses = {x.data_ptr() for x in newest}
    del results[3:]
    while results:
        results.pop(0)
    while newest:
        newest.pop(0)
    assert len(nothing_kept) == 2
    again = [large(16), large(16)]
    assert {x.data_ptr() for x in again} == addresses


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_layout_is_that_of_torch(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_pool, "LARGE", 1)
    base = torch.zeros(2, 5, 3, 4, dtype=dtype)
    for x in (base, base.transpose(1, 2), base[:, ::2], base.expand(2, 5, 3, 4), base[:1].expand(2, 5, 3, 4)):
        result, expected = empty_like(x), torch.empty_like(x)
        assert (result.shape, result.stride(), result.dtype) == (expected.shape, expected.stride(), expected.dtype)
        assert result._base is None
    assert empty_like(base.transpose(1, 3)).stride() == (60, 15, 5, 1)
    result = empty((2, 0, 3), base)
    assert (result.shape, result.dtype) == ((2, 0, 3), dtype)
    assert empty((2, 3), base).stride() == (3, 1)


def test_small_results_and_stand_ins_are_those_of_torch(nothing_kept: dict[int, object]) -> None:
    empty_like(torch.empty(buffer_pool.LARGE // 4 - 1))
    assert not nothing_kept
    empty_like(torch.empty(MEBI))
    assert len(nothing_kept) == 1
    assert empty((4 * MEBI,), torch.empty(0, device="meta")).is_meta


def test_results_survive_what_torch_does_with_tensors() -> None:
    x = large(4).fill_(2.0)
    copy = x.clone()
    shared = x.clone().share_memory_()
    assert torch.equal(x, copy)
    assert torch.equal(x, shared)
    with torch.inference_mode():
        assert large(4).is_inference()
    leaf = large(4).fill_(1.0).requires_grad_()
    (leaf * 3).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.unique().tolist() == [3.0]


def test_threads_never_share_memory() -> None:
    problems: list[str] = []

    def work(number: float) -> None:
        for _ in range(50):
            x = large(4)
            x[:: 1 << 10] = number
            if x[:: 1 << 10].unique().tolist() != [number]:
                problems.append(f"thread {number} found other numbers")

    threads = [threading.Thread(target=work, args=(float(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def _overwrite(x: Tensor, spare: int) -> None:
    x.fill_(9.0)
    large(spare).fill_(9.0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_forked_process_has_memory_of_its_own() -> None:
    x = large(4).fill_(1.0)
    child = multiprocessing.get_context("fork").Process(target=_overwrite, args=(x, 4))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert x.unique().tolist() == [1.0]


def train(x: Tensor, strengths: Tensor) -> list[Tensor]:
    """Results and gradients of features and a scan."""
    x, strengths = x.clone().requires_grad_(), strengths.clone().requires_grad_()
    keys = _COMPILED(x, [1], normalise=1)
    weights = torch.zeros(x.shape[0], x.shape[1], x.shape[3], keys.shape[3])
    reads, final = native.scan(keys, keys, x, strengths, strengths, weights, None)
    (reads.square().sum() + final.square().sum()).backward()
    assert x.grad is not None
    assert strengths.grad is not None
    return [keys.detach(), reads.detach(), final.detach(), x.grad, strengths.grad]


@needs_kernel
def test_the_kernels_compute_the_same_in_kept_memory(
    nothing_kept: dict[int, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(1)
    x, strengths = torch.randn(2, 3, 300, 8, generator=generator), torch.rand(2, 3, 300, generator=generator)
    expected = train(x, strengths)
    assert not nothing_kept
    monkeypatch.setattr(buffer_pool, "LARGE", 1)
    for _ in range(3):
        # What the calls before left behind must not be seen.
        for left in list(nothing_kept.values()):
            left[:] = b"\xff" * len(left)  # type: ignore[index,arg-type]
        results = train(x, strengths)
        assert all(torch.equal(*pair) for pair in zip(results, expected, strict=True))
        assert nothing_kept
