"""Compile every Triton kernel for chips that are not here; read registers, spills and shared memory from the binary."""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from fastweights.kernels.triton import backward, feature_kernels, features, forward, step
from fastweights.kernels.triton.configuration import BLOCKS_K, Configuration, every

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
SHARED_LIMITS = {"sm_80": 163 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10, "gfx942": 64 << 10}
"""Bytes that one program can have."""

KERNELS = {
    name.removesuffix("_kernel"): kernel
    for module in (forward, backward, step, feature_kernels)
    for name, kernel in vars(module).items()
    if name.endswith("_kernel")
}
MAPS = {name.removesuffix("_kernel") for name in vars(feature_kernels)}
SEQUENCES = {
    "queries",
    "keys",
    "values",
    "d_reads",
    "reads",
    "d_queries",
    "d_keys",
    "d_values",
    "x",
    "features",
    "result",
}
COLUMNS = {"erase_by", "write_by", "decay_by"}
REALS = {"largest", "vanishing"}
OF_FEATURES = {"DIVIDES": True, "ROWS": features.ROWS, "DIM": 64}


@dataclass(frozen=True)
class Resources:
    """What a compiled kernel needs of a chip."""

    kernel: str
    variant: str
    chip: str
    configuration: Configuration
    registers: int
    spilled: int
    shared: int

    @property
    def row(self) -> tuple[str, str, str]:
        """What a row of the table is about: the kernel, and its blocks of features and of values, if it has them."""
        numbers, parameters = self.configuration.constants(), KERNELS[self.kernel].arg_names
        k, v = (str(numbers[name]) if name in parameters else "" for name in ("BLOCK_K", "BLOCK_V"))
        return self.kernel + self.variant, k, v

    @property
    def fits(self) -> bool:
        return self.spilled == 0 and self.shared <= SHARED_LIMITS[self.chip]


def choices(name: str, chip: str) -> list[Configuration]:
    """The configurations that `auto` can choose, one for each set of numbers that the kernel is compiled with.

    Feature maps have one of their own, for inputs of 16 and of 32 bits.
    """
    if name in MAPS:
        return [replace(features.SIZES, precision="tf32"), replace(features.SIZES, precision="ieee")]
    distinct: dict[tuple[Any, ...], Configuration] = {}
    for configuration in every(TARGETS[chip].backend):
        used = [value for key, value in configuration.constants().items() if key in KERNELS[name].arg_names]
        distinct.setdefault((configuration.precision, *used), configuration)
    return list(distinct.values())


def variants(kernel: Any, configuration: Configuration) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and numbers beside the configuration's: with all of k in a block or, if that is the largest, in several."""
    yield "", {"WHOLE": True, **OF_FEATURES}
    if "WHOLE" in kernel.arg_names and configuration.block_k == BLOCKS_K[configuration.precision][-1]:
        yield ", k in blocks", {"WHOLE": False, **OF_FEATURES}


def signature(kernel: Any, configuration: Configuration) -> tuple[dict[str, Any], dict[Any, Any], dict[Any, Any]]:
    """Types, constants and divisibilities of the parameters, as a launch with ordinary tensors has them."""
    sequence = "fp32" if configuration.precision == "ieee" else "bf16"
    types: dict[str, Any] = {}
    constants: dict[Any, Any] = {}
    attributes: dict[Any, Any] = {}
    for place, parameter in enumerate(kernel.params):
        name = parameter.name
        if parameter.is_constexpr:
            types[name] = "constexpr"
        elif name.endswith("_by"):
            # The last stride of a contiguous tensor is one, which Triton compiles in.
            long = 2 if name in COLUMNS else 3
            types[name] = ("i32",) * long + ("constexpr",)
            constants[place, long] = 1
            attributes |= {(place, i): [["tt.divisibility", 16]] for i in range(long)}
        elif name in SEQUENCES:
            types[name] = f"*{sequence}"
        elif name in ("heads", "steps", "chunks", "key_dim", "value_dim", "rows_of_all", "blocks", "rows", "dim", "nu"):
            types[name] = "i32"
        else:
            types[name] = "fp32" if name in REALS else "*fp32"
        if isinstance(types[name], str) and (types[name][0] == "*" or name in ("key_dim", "value_dim", "dim")):
            attributes[place,] = [["tt.divisibility", 16]]
    return types, constants, attributes


def compiled(name: str, chip: str, configuration: Configuration, decays: bool = True) -> Iterator[Resources]:
    """The kernel for this chip, in each of its variants."""
    kernel = KERNELS[name]
    for suffix, more in variants(kernel, configuration):
        types, constants, attributes = signature(kernel, configuration)
        known = configuration.constants() | more | {"DECAYS": decays}
        constants |= {(i,): known[p.name] for i, p in enumerate(kernel.params) if p.is_constexpr}
        source = ASTSource(kernel, types, constants, attributes)
        options = {"num_warps": configuration.warps, "num_stages": configuration.stages}
        binary = triton.compile(source, target=TARGETS[chip], options=options)
        registers, spilled = _amd(binary.asm["amdgcn"]) if chip.startswith("gfx") else _nvidia(binary.asm["cubin"])
        yield Resources(name, suffix, chip, configuration, registers, spilled, binary.metadata.shared)


def _nvidia(cubin: bytes) -> tuple[int, int]:
    """Registers of a thread, and the bytes that it keeps elsewhere for lack of them."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        shown = subprocess.run(
            [TOOLS / "cuobjdump", "-res-usage", file.name], capture_output=True, text=True, check=True
        )
    found = re.search(r"REG:(\d+) STACK:(\d+).*?LOCAL:(\d+)", shown.stdout)
    assert found is not None, shown.stdout
    return int(found[1]), int(found[2]) + int(found[3])


def _amd(assembly: str) -> tuple[int, int]:
    """Vector registers of a thread, and the bytes of scratch memory that it keeps others in."""
    names = ("vgpr_count", "private_segment_fixed_size")
    registers, scratch = (int(re.findall(rf"\.{name}:\s+(\d+)", assembly)[-1]) for name in names)
    return registers, scratch
