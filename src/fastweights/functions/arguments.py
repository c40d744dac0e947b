"""The caller's tensors, checked by name before any work: none is broadcast, and none rounded, in silence."""

import torch
from torch import Tensor

Sizes = dict[str, int]
"""The size of every axis that the arguments checked so far have, by its letter."""

POSSIBLE = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def check(sizes: Sizes, name: str, x: Tensor | None, letters: str, also: str = "") -> None:
    """As `check_shape`, and the numbers must be floating-point ones."""
    check_shape(sizes, name, x, letters, also)
    assert x is not None
    if x.dtype not in POSSIBLE:
        possible = ", ".join(map(str, POSSIBLE))
        raise ValueError(f"{name}: expected a floating-point dtype ({possible}), got {x.dtype}")


def check_shape(sizes: Sizes, name: str, x: Tensor | None, letters: str, also: str = "") -> None:
    """A ValueError unless the axes of `x` have the sizes of these letters, which it decides where it is the first.

    `also` ends what the error says is expected.
    """
    axes = letters.split()
    if not isinstance(x, Tensor):
        raise _misfit(sizes, name, axes, also, "None" if x is None else type(x).__name__)
    fits = x.dim() == len(axes)
    for axis, size in zip(axes, x.shape, strict=False):
        fits = fits and sizes.get(axis, size) == size
    if not fits:
        raise _misfit(sizes, name, axes, also, str(tuple(x.shape)))
    sizes.update(zip(axes, x.shape, strict=True))


def _misfit(sizes: Sizes, name: str, axes: list[str], also: str, got: str) -> ValueError:
    expected = f"({', '.join(axes)})"
    if any(axis in sizes for axis in axes):
        expected += f" = ({', '.join(str(sizes.get(axis, axis)) for axis in axes)})"
    return ValueError(f"{name}: expected shape {expected}{also}, got {got}")


def precision_of(*tensors: Tensor | None) -> torch.dtype:
    """The one dtype that all of them are computed in: the widest, and at least float32."""
    dtype = torch.float32
    for x in tensors:
        if x is not None:
            dtype = torch.promote_types(dtype, x.dtype)
    return dtype
