"""Matrix products in float32 by oneDNN, for processors on which those of MKL use half of what they have.

PyTorch multiplies float32 matrices with MKL, which takes AVX2 on processors that are not Intel's, AVX-512 or not.
oneDNN, which every build of PyTorch for x86 contains, takes what the processor has.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

LEAST_WORK = 1 << 20
"""Multiplications from which on a product is worth the way through Python."""

_taken = False


@contextmanager
def best_products() -> Iterator[None]:
    """Let oneDNN multiply matrices inside, where it is faster than MKL; elsewhere and on GPUs nothing changes."""
    if not mkl_falls_short():
        yield
        return
    with onednn_products():
        yield


def mkl_falls_short() -> bool:
    """Whether this processor has AVX-512, which MKL does not use on it."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return False
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and _vendor() != "GenuineIntel"


def _vendor() -> str:
    """Who made the processor; as if Intel where the system does not tell."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines() if cpuinfo.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "GenuineIntel")


@contextmanager
def onednn_products() -> Iterator[None]:
    """Multiply matrices in float32 on CPUs by oneDNN inside: `torch.mm`, `torch.addmm`, and what is made of them.

    The products replace those of PyTorch for the whole process and all of its threads, below autograd, so that
    derivatives of any order, `nn.Linear` and `torch.func` have them too. Other dtypes and small products are as before.
    """
    global _taken  # PyTorch has one table of kernels for the process
    if _taken:
        yield
        return

    def mm(a: Tensor, b: Tensor) -> Tensor:
        # The product into a given tensor is another operator, which stays.
        return _product(a, b, None) if _is_large(a, b) else torch.mm(a, b, out=a.new_empty(0))

    def addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        if beta == alpha == 1 and bias.dtype == a.dtype and bias.shape == b.shape[1:] and _is_large(a, b):
            return _product(a, b, bias.contiguous())
        return torch.addmm(bias, a, b, beta=beta, alpha=alpha, out=a.new_empty(0))

    library = torch.library.Library("aten", "IMPL")
    _taken = True
    try:
        with warnings.catch_warnings():
            # PyTorch warns of every kernel that is replaced.
            warnings.simplefilter("ignore")
            library.impl("mm", mm, "CPU")
            library.impl("addmm", addmm, "CPU")
        yield
    finally:
        library._destroy()
        _taken = False


def are_replaced() -> bool:
    """Whether oneDNN multiplies at the moment: it has products of its own memory only, none into a given one."""
    return _taken


def _is_large(a: Tensor, b: Tensor) -> bool:
    if a.dtype != torch.float32 or b.dtype != torch.float32 or a.device != b.device or a.shape[1:] != b.shape[:1]:
        return False
    return a.shape[0] * a.shape[1] * b.shape[1] >= LEAST_WORK and _has_rows(a) and _has_rows(b)


def _has_rows(x: Tensor) -> bool:
    """Whether rows or columns lie one behind the other."""
    rows, columns = x.stride()
    return (columns == 1 and rows >= x.shape[1]) or (rows == 1 and columns >= x.shape[0])


def _product(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    """a b + bias; oneDNN copies its first factor if the columns of that lie one behind the other."""
    if bias is None and a.stride(1) != 1 and a.numel() > b.numel() + a.shape[0] * b.shape[1]:
        return _linear(b.t(), a, None).t().contiguous()
    return _linear(a, b.t(), bias)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result
