"""Instructions that the kernels execute, counted by callgrind: a record without noise to compare commits with.

    python -m benchmarks.instructions                               compare with the record
    python -m benchmarks.instructions --write                       replace it

Valgrind knows no AVX-512, so that the kernels take the AVX2 form there. Counts depend on compiler and its version too.
"""

import argparse
import ctypes
import importlib.util
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

RECORD = Path(__file__).parent / "results" / "instructions.json"
HEADS, STEPS = 2, 256
CASES = (
    *("scan_forward layer 16 16", "scan_forward layer 32 16", "scan_forward layer 64 64", "scan_forward decay 64 64"),
    *(
        "scan_backward layer 16 16",
        "scan_backward layer 32 16",
        "scan_backward layer 64 64",
        "scan_backward decay 64 64",
    ),
    "scan_backward contiguous 64 64",
    "linear rows 128 1000",
)
"""Kernel, layout, and its sizes k and v (or inputs and outputs)."""


class Arguments(list[int]):
    """The integers and addresses of a call, and the memory they point to."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: list[ctypes.Array[ctypes.c_float]] = []

    def numbers(self, count: int) -> int:
        """The address of so many small numbers, the same every time."""
        array = (ctypes.c_float * count)(*(((7919 * i) % 1000) / 4000 for i in range(count)))
        self.memory.append(array)
        return ctypes.addressof(array)

    def sequence(self, columns: int, layer: bool) -> None:
        """A tensor b h t ·, contiguous or a view of b t h ·."""
        head, time = (columns, HEADS * columns) if layer else (STEPS * columns, columns)
        self.extend((self.numbers(HEADS * STEPS * columns), 0, head, time))

    def nothing(self) -> None:
        """An absent tensor."""
        self.extend((0, 0, 0, 0))


def arguments_of(case: str) -> tuple[str, Arguments]:
    """The kernel and its arguments (csrc/capi.h)."""
    kernel, layout, *sizes = case.split()
    k, v = map(int, sizes)
    made = Arguments()
    if kernel == "linear":
        made.extend((1, k, v, made.numbers(k), made.numbers(k * v), made.numbers(v), made.numbers(v), k, k, v, 0))
        return kernel, made
    layer, size, checkpoints = layout != "contiguous", HEADS * k * v, (STEPS - 1) // 128
    columns = (k, k, v, 1, 1)
    made.extend((1, HEADS, STEPS, k, v, 128))
    for width in columns:
        made.sequence(width, layer)
    made.sequence(1, layer) if layout == "decay" else made.nothing()
    made.append(0)
    made.nothing()
    made.append(made.numbers(size))
    saved = (made.numbers(HEADS * STEPS * v), made.numbers(checkpoints * size))
    if kernel == "scan_forward":
        made.sequence(v, layer)
        made.extend((made.numbers(size), *saved))
        return kernel, made
    made.extend(saved)
    made.sequence(v, layer)
    made.append(0)
    for width in columns:
        made.sequence(width, layer)
    made.sequence(1, layer) if layout == "decay" else made.nothing()
    made.nothing()
    made.append(made.numbers(size))
    return kernel, made


def run(case: str, library: str) -> None:
    """Call the kernel once, without torch, which would take minutes to start under valgrind."""
    kernel, arguments = arguments_of(case)
    function = ctypes.CDLL(library)[f"fastweights_{kernel}"]
    function.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64]
    if function(struct.pack(f"={len(arguments)}q", *arguments), 4, 1) != 1:
        raise SystemExit(f"{case}: the kernel failed")


def count(case: str, library: str) -> int:
    """Instructions inside the library during one call."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", sys.executable, "-S", "-E"]
        finished = subprocess.run(
            [*command, __file__, "--case", case, library], capture_output=True, text=True, check=False
        )
        if finished.returncode:
            raise SystemExit(f"{case}: valgrind failed\n{finished.stderr[-2000:]}")
        return own_cost(profile.read_text(), library)


def own_cost(profile: str, library: str) -> int:
    """The sum of what callgrind charges to functions of one library, without what these call elsewhere."""
    total, inside, known, skips = 0, False, dict[str, str](), False
    for line in profile.splitlines():
        if found := re.match(r"ob=(\(\d+\))(?: (.*))?$", line):
            known[found[1]] = found[2] or known[found[1]]
            inside = known[found[1]] == library
        elif found := re.match(r"cob=(\(\d+\)) (.*)$", line):
            known[found[1]] = found[2]
        elif line.startswith("calls="):
            skips = True
        elif line[:1] in "0123456789+-*":
            total += 0 if skips or not inside or not line else int(line.split()[1])
            skips = False
    return total


def main() -> None:
    """Count, compare with the record, and replace it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"replace {RECORD.name}")
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        return run(*options.case)
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind: not found; a Debian package of that name has it")
    spec = importlib.util.find_spec("fastweights._native")
    if spec is None or spec.origin is None:
        raise SystemExit("the native kernels were not built: install the package with pip")
    before: dict[str, int] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    counts: dict[str, int] = {}
    for case in CASES:
        counts[case] = count(case, spec.origin)
        change = f"{100 * (counts[case] / before[case] - 1):+.1f} %" if case in before else "new"
        print(f"{case:32} {counts[case]:>12,} {change}", flush=True)
        if options.write:
            RECORD.write_text(json.dumps({**before, **counts}, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
