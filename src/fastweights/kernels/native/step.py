"""Fast path for a single step without gradients, as in generation: the library reads the tensors through DLPack.

Reading shapes, strides and addresses from Python takes several times as long as the step:
docs/benchmarks.md, Shortcuts.
"""

import ctypes

import torch
from torch import Tensor

from fastweights.kernels.native import library


def _exchange() -> int | None:
    """Address of the functions by which a C library reads torch's tensors (DLPack 1.x); None if torch has none."""
    capsule = getattr(Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    address = pointer(capsule, b"dlpack_exchange_api")
    return address if ctypes.c_uint32.from_address(address).value == 1 else None


def _load() -> "ctypes._NamedFuncPointer | None":
    if library.unavailable() is not None or _EXCHANGE is None:
        return None
    # PyDLL: the library calls functions of torch that need the interpreter's lock.
    step = ctypes.PyDLL(library.load()._name).fastweights_step
    optional = (ctypes.c_int, ctypes.py_object)
    step.argtypes = [ctypes.c_void_p, ctypes.c_int64, *[ctypes.py_object] * 8, *optional, *optional]
    return step


_EXCHANGE = _exchange()
_step = _load()


def step(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
    lookups: Tensor | None = None,
) -> tuple[Tensor, Tensor] | None:
    """Reads and weights after a single step; None if the inputs need the general path, which also reports errors."""
    inputs = (queries, keys, values, erase, write, weights, decay, lookups)
    if (
        weights is None
        or _step is None
        or library.unavailable() is not None
        or library.needs_dispatcher(inputs)
        or keys.dim() != 4
        or keys.shape[2] != 1
        or (torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs))
    ):
        return None
    reads, final = torch.empty_like(values), torch.empty_like(weights)
    try:
        taken = _step(
            _EXCHANGE,
            torch.get_num_threads(),
            queries,
            keys,
            values,
            erase,
            write,
            weights,
            reads,
            final,
            decay is not None,
            decay,
            lookups is not None,
            lookups,
        )
    except (BufferError, RuntimeError):  # DLPack cannot describe such a tensor, a sparse one for instance
        return None
    return (reads, final) if taken else None
