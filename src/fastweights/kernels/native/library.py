"""The compiled kernels (csrc/): found, loaded and called through ctypes."""

import ctypes
import importlib
import importlib.util
import os
import struct
from collections.abc import Iterable, Sequence

# Before the library, so that both share the OpenMP runtime that torch brings.
import torch
from torch import Tensor
from torch.autograd import forward_ad

INSTRUCTIONS = "FASTWEIGHTS_INSTRUCTIONS"
"""Environment variable that names the instruction set to use, instead of the best that the processor has."""

LEVELS = ("avx512", "avx2", "baseline")

INTERFACE = 3
"""The number of the C interface that this package calls (`kInterface` in csrc/capi.h)."""

ONEDNN_LIMIT = "ONEDNN_MAX_CPU_ISA"
"""Environment variable of oneDNN, which multiplies matrices for torch: the best instruction set that it may use."""

WITHOUT_TILES = "AVX512_CORE_FP16"

ELEMENT_BYTES = {torch.float32: 4, torch.float64: 8}
"""Number types that the kernels compute with."""

KERNELS = (
    *("scan_forward", "scan_backward", "dpfp", "elu_plus_one", "kernel_attention"),
    *("linear", "attention_step", "feed_forward_step"),
)


def _open() -> tuple[ctypes.CDLL | None, str | None]:
    spec = importlib.util.find_spec("fastweights._native")
    if spec is None or spec.origin is None:
        return None, _build_problem()
    try:
        library = ctypes.CDLL(spec.origin)
    except OSError as error:
        return None, f"the compiled library cannot be loaded: {error}"
    library.fastweights_level.restype = ctypes.c_char_p
    library.fastweights_use_level.argtypes = [ctypes.c_char_p]
    try:
        for name in KERNELS:
            library[f"fastweights_{name}"].argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64]
        fits = library.fastweights_interface() == INTERFACE
    except AttributeError:
        fits = False
    if not fits:
        return None, "the compiled library belongs to another version of the package: install it again with pip"
    if library.fastweights_tiles_are_missing():
        # A product in bfloat16 would end the process. oneDNN reads the variable when it is first used.
        os.environ.setdefault(ONEDNN_LIMIT, WITHOUT_TILES)
    wanted = os.environ.get(INSTRUCTIONS)
    if wanted and not library.fastweights_use_level(wanted.encode()):
        possible = [level for level in LEVELS if library.fastweights_use_level(level.encode())]
        return None, f"{INSTRUCTIONS} is {wanted!r}, which this processor lacks; possible: {', '.join(possible)}"
    return library, None


def _build_problem() -> str:
    """Why the build made no library, as its note says."""
    try:
        build = importlib.import_module("fastweights._native_build")
    except ModuleNotFoundError:
        return "the package was not built: install it with pip"
    return str(build.PROBLEM) or "the compiled library is missing from the installed package"


# Load at import: torch.compile cannot trace loading a shared library.
_library, _problem = _open()


def unavailable() -> str | None:
    """Why the compiled kernels cannot be used here; None if they can."""
    return _problem


def load() -> ctypes.CDLL:
    """The library."""
    if _library is None:
        raise RuntimeError(f"the native kernels are not available: {_problem}")
    return _library


def instructions() -> str:
    """The instruction set in use."""
    return str(load().fastweights_level().decode())


def tiles_are_missing() -> bool:
    """True if the processor announces AMX tiles and has none: products in bfloat16 are then made without them."""
    return bool(_library is not None and _library.fastweights_tiles_are_missing())


def call(kernel: str, arguments: Sequence[int], dtype: torch.dtype) -> None:
    """Call a kernel with its argument structure, given as the 64-bit integers and addresses that make it up."""
    packed = struct.pack(f"={len(arguments)}q", *arguments)
    if not getattr(load(), f"fastweights_{kernel}")(packed, ELEMENT_BYTES[dtype], torch.get_num_threads()):
        raise MemoryError("the native kernel could not allocate its workspace")


def needs_dispatcher(inputs: Iterable[Tensor | None]) -> bool:
    """True if the call must go through torch's dispatcher (torch.compile, export, functorch, modes, subclasses)."""
    if (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
    ):
        return True
    for x in inputs:  # noqa: SIM110  `any` takes twice as long
        if x is not None and (type(x) is not Tensor or x.is_neg()):
            return True
    return False


def contiguous_rows(x: Tensor) -> Tensor:
    """The tensor itself, or a copy if its last dimension is not contiguous."""
    return x if x.shape[-1] == 1 or x.stride(-1) == 1 else x.contiguous()


def sequence(x: Tensor | None) -> tuple[int, ...]:
    """Address and strides of a `b h t` or `b h t ·` tensor, as the kernels take them; zeros if there is none."""
    if x is None:
        return 0, 0, 0, 0
    batch, head, time, *_ = x.stride()
    return x.data_ptr(), batch, head, time
