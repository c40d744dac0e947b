"""A buffer pool for kernel outputs: buffers of 2 MiB or more are reused by later calls.

The system hands out new memory page by page as it is first written, which takes half as long as computing what a scan
writes there; malloc returns large buffers to the system and asks for new ones at the next call. `mallopt` could change
that as well, but for the whole process, and the system would never get the memory back (docs/benchmarks.md, Shortcuts).
"""

import ctypes
import mmap
import weakref
from collections.abc import Sequence
from contextlib import suppress
from math import prod

import torch
from torch import Tensor

HUGE_PAGE = 2 << 20

LARGE = HUGE_PAGE
"""Outputs of at least this many bytes come from the pool."""

MAX_UNUSED = 1 << 30
"""Largest sum of unused buffers in the pool, in bytes; the system may reclaim them when it runs short."""

# Needs memory that is private to the process and can be given back on demand: Linux.
_AVAILABLE = all(hasattr(mmap, name) for name in ("MAP_PRIVATE", "MAP_ANONYMOUS", "MADV_HUGEPAGE", "MADV_FREE"))

# By identity, the longest unused first. A dictionary's single operations are atomic. A lock could deadlock: the garbage
# collector may run inside the protected code and call `_release`, which would ask for the lock again.
_unused: dict[int, mmap.mmap] = {}


def empty_like(x: Tensor) -> Tensor:
    """An uninitialised output laid out like `x`, or contiguous if the last dimension of `x` is not."""
    if _is_large(x, x.shape):
        layout = torch.empty_like(x, device="meta")
        strides = layout.stride() if _has_rows(layout) else layout.contiguous().stride()
        return _pooled(x.dtype, x.shape, strides)
    result = torch.empty_like(x)
    return result if _has_rows(result) else torch.empty_like(x, memory_format=torch.contiguous_format)


def empty(shape: Sequence[int], x: Tensor) -> Tensor:
    """An uninitialised contiguous output of this shape, with the dtype and device of `x`."""
    if _is_large(x, shape):
        return _pooled(x.dtype, shape, torch.empty(shape, device="meta").stride())
    return x.new_empty(shape)


def _has_rows(x: Tensor) -> bool:
    return x.shape[-1] == 1 or x.stride(-1) == 1


def _is_large(x: Tensor, shape: Sequence[int]) -> bool:
    # Fake tensors of a compiler have a shape and no memory.
    if not _AVAILABLE or torch.compiler.is_compiling() or type(x) is not Tensor or x.device.type != "cpu":
        return False
    return prod(shape) * x.element_size() >= LARGE


def _pooled(dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """A tensor in a buffer that returns to the pool when the last tensor that uses it is gone."""
    count = prod(shape)
    mapping = _take(count * dtype.itemsize)
    memory = (ctypes.c_char * len(mapping)).from_buffer(mapping)
    weakref.finalize(memory, _release, mapping).atexit = False
    flat = torch.frombuffer(memory, dtype=dtype, count=count)
    return torch.empty(0, dtype=dtype).set_(flat.untyped_storage(), 0, shape, strides)


def _take(size: int) -> mmap.mmap:
    """The smallest unused buffer of at least this size and at most twice as much, or a new one."""
    size = -(-size // HUGE_PAGE) * HUGE_PAGE
    fitting = [mapping for mapping in list(_unused.values()) if size <= len(mapping) <= 2 * size]
    for mapping in sorted(fitting, key=len):
        # Another thread may have taken it since.
        if _unused.pop(id(mapping), None) is not None:
            return mapping
    new = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _advise(new, mmap.MADV_HUGEPAGE)
    return new


def _release(mapping: mmap.mmap) -> None:
    _advise(mapping, mmap.MADV_FREE)
    _unused[id(mapping)] = mapping
    while sum(map(len, list(_unused.values()))) > MAX_UNUSED:
        _unused.pop(next(iter(list(_unused)), 0), None)


def _advise(mapping: mmap.mmap, advice: int) -> None:
    # Systems may lack huge pages or lock memory; the advice affects speed only.
    with suppress(OSError):
        mapping.madvise(advice)
