"""Random problems for the Triton kernels: sizes around every block, all precisions, layouts and kinds of decay."""

import random
from dataclasses import dataclass

import torch
from operator_inputs import differentiate, draw, leaves
from torch import Tensor

from fastweights import fast_weight_scan

# Nothing, one, primes, and the neighbours of chunks and blocks of 16, 32 and 64.
LENGTHS = (0, 1, 2, 3, 5, 7, 13, 16, 17, 23, 31, 32, 33, 37, 47, 61, 67)
KEY_DIMS = (1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 48, 64, 65, 97, 130)
VALUE_DIMS = (1, 2, 5, 7, 16, 17, 31, 32, 33, 50)
LARGE = ((33, 257, 5), (5, 384, 17), (17, 512, 3), (1, 512, 40), (40, 511, 1))
"""Steps, keys and values of problems as large as DPFP makes them."""
DTYPES = (torch.float32, torch.float32, torch.float32, torch.bfloat16, torch.float16)
TOLERANCES = {torch.float32: (2e-6, 1e-5), torch.bfloat16: (1e-2, 1e-2), torch.float16: (2e-3, 2e-3)}
"""Largest error of reads and weights, and of gradients, relative to the largest expected magnitude."""


@dataclass(frozen=True)
class Scan:
    """One drawn problem."""

    seed: int
    batch: int
    heads: int
    steps: int
    key_dim: int
    value_dim: int
    dtype: torch.dtype
    layout: str
    decay: str
    starts_empty: bool


def drawn(seed: int) -> Scan:
    """The problem with this number; every fiftieth is a large one."""
    pick = random.Random(seed)
    sizes = LARGE[seed // 50 % len(LARGE)] if seed % 50 == 49 else (0, 10**3, 10**3)
    while sizes[1] * sizes[2] > 3000:  # the interpreter is slow
        sizes = pick.choice(LENGTHS), pick.choice(KEY_DIMS), pick.choice(VALUE_DIMS)
    small = sizes[0] * sizes[1] < 300
    return Scan(
        seed,
        *pick.choice(((1, 2), (2, 1), (2, 2)) if small else ((1, 1), (1, 1), (1, 2))),
        *sizes,
        dtype=pick.choice(DTYPES),
        layout=pick.choice(("contiguous", "transposed", "strided", "expanded")),
        decay=pick.choice(("none", "head", "zeros")),
        starts_empty=pick.random() < 0.3,
    )


def inputs_of(scan: Scan) -> dict[str, Tensor]:
    """The tensors of a problem."""
    tensors = draw(scan.seed, scan.batch, scan.heads, scan.steps, scan.key_dim, scan.value_dim, scan.dtype, scan.layout)
    if scan.decay == "none":
        del tensors["decay"]
    elif scan.decay == "zeros":
        zero = torch.rand(tensors["decay"].shape, generator=torch.Generator().manual_seed(scan.seed)) < 0.15
        tensors["decay"] = tensors["decay"].masked_fill(zero, 0.0)
    if scan.starts_empty:
        del tensors["weights"]
    return tensors


def relative_to_largest(actual: Tensor, expected: Tensor) -> float:
    """The largest error, relative to the largest expected magnitude."""
    if not expected.numel():
        return 0.0
    difference, scale = (actual.double() - expected).abs().max().item(), expected.abs().max().item()
    return difference / scale if scale else difference


def outcome(
    tensors: dict[str, Tensor], backend: str, precision: torch.dtype, dtype: torch.dtype | None = None
) -> dict[str, Tensor]:
    """Reads, final weights and all gradients, on the CPU; `dtype` computes with numbers of another precision."""
    ours = leaves(tensors, dtype)
    reads, weights = fast_weight_scan(**ours, backend=backend)
    gradients = differentiate((reads, weights), ours, precision=precision)
    assert all(gradient.dtype == ours[name].dtype for name, gradient in gradients.items())
    found = {"reads": reads, "weights": weights} | {f"d {name}": x for name, x in gradients.items()}
    return {name: x.detach().cpu() for name, x in found.items()}


def assert_agrees(scan: Scan, backend: str = "triton", device: str = "cpu") -> None:
    """Reads, weights and all gradients are those of the equation in float64."""
    tensors = inputs_of(scan)
    actual = outcome({name: x.to(device) for name, x in tensors.items()}, backend, scan.dtype)
    expected = outcome(tensors, "recurrent", scan.dtype, torch.float64)
    assert actual["reads"].dtype == scan.dtype
    assert actual["weights"].dtype == torch.float32
    errors = {name: relative_to_largest(actual[name], x) for name, x in expected.items()}
    most, most_of_gradients = TOLERANCES[scan.dtype]
    bounds = {name: most_of_gradients if name.startswith("d ") else most for name in errors}
    assert not {name: error for name, error in errors.items() if not error <= bounds[name]}, scan
