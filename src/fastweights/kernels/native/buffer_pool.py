"""Memory for the results of the kernels; what large ones leave behind is kept for the next call.

The system hands out new memory page by page as it is first written, which takes half as long as computing what a scan
writes there. For results of more than 32 MiB malloc asks the system at every call, and of smaller ones it often does.
"""

import ctypes
import mmap
import weakref
from collections.abc import Sequence
from contextlib import suppress
from math import prod

import torch
from torch import Tensor

LARGE = 4 << 20
"""Results from so many bytes on live in memory that is kept."""

MOST_KEPT = 1 << 30
"""Bytes that are kept while nothing uses them; the system may take them back when it runs short."""

HUGE_PAGE = 2 << 20

# Where memory can be private to a process and given back on demand: Linux.
_AVAILABLE = all(hasattr(mmap, name) for name in ("MAP_PRIVATE", "MAP_ANONYMOUS", "MADV_HUGEPAGE", "MADV_FREE"))

# By identity, the longest unused first. Its single operations are atomic; a lock would not do: garbage may be collected
# in the middle of what it protects, and ask for it again.
_unused: dict[int, mmap.mmap] = {}


def empty_like(x: Tensor) -> Tensor:
    """Memory for a result, laid out like `x` as far as its last dimension can stay contiguous."""
    if _is_large(x, x.shape):
        layout = torch.empty_like(x, device="meta")
        strides = layout.stride() if _has_rows(layout) else layout.contiguous().stride()
        return _kept_memory(x.dtype, x.shape, strides)
    result = torch.empty_like(x)
    return result if _has_rows(result) else torch.empty_like(x, memory_format=torch.contiguous_format)


def empty(shape: Sequence[int], x: Tensor) -> Tensor:
    """Memory for a contiguous result of this shape, of the kind of `x`."""
    if _is_large(x, shape):
        return _kept_memory(x.dtype, shape, torch.empty(shape, device="meta").stride())
    return x.new_empty(shape)


def _has_rows(x: Tensor) -> bool:
    return x.shape[-1] == 1 or x.stride(-1) == 1


def _is_large(x: Tensor, shape: Sequence[int]) -> bool:
    # Not for the stand-ins of a compiler, which have a shape and no memory.
    if not _AVAILABLE or torch.compiler.is_compiling() or type(x) is not Tensor or x.device.type != "cpu":
        return False
    return prod(shape) * x.element_size() >= LARGE


def _kept_memory(dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """A tensor in memory that comes back here when the last tensor in it is gone."""
    count = prod(shape)
    mapping = _take(count * dtype.itemsize)
    memory = (ctypes.c_char * len(mapping)).from_buffer(mapping)
    weakref.finalize(memory, _keep, mapping).atexit = False
    flat = torch.frombuffer(memory, dtype=dtype, count=count)
    return torch.empty(0, dtype=dtype).set_(flat.untyped_storage(), 0, shape, strides)


def _take(size: int) -> mmap.mmap:
    """The smallest unused memory of this size and at most twice as much, or new one."""
    size = -(-size // HUGE_PAGE) * HUGE_PAGE
    fitting = [mapping for mapping in list(_unused.values()) if size <= len(mapping) <= 2 * size]
    for mapping in sorted(fitting, key=len):
        # Another thread may have been faster.
        if _unused.pop(id(mapping), None) is not None:
            return mapping
    new = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _advise(new, mmap.MADV_HUGEPAGE)
    return new


def _keep(mapping: mmap.mmap) -> None:
    _advise(mapping, mmap.MADV_FREE)
    _unused[id(mapping)] = mapping
    while sum(map(len, list(_unused.values()))) > MOST_KEPT:
        _unused.pop(next(iter(list(_unused)), 0), None)


def _advise(mapping: mmap.mmap, advice: int) -> None:
    # Systems may be built without huge pages, or have memory locked; nothing depends on it.
    with suppress(OSError):
        mapping.madvise(advice)
