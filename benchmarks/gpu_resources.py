"""The tables of docs/gpu.md: `python -m benchmarks.gpu_resources` compiles the kernels for every chip and writes both.

Every configuration that `auto` can choose is compiled, which takes ten minutes of a core for each chip; Triton keeps
what it has compiled. With --all, kernels without a decay are compiled and checked too, which need less.
"""

import argparse
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path

from benchmarks.gpu_compile import KERNELS, SHARED_LIMITS, TARGETS, Resources, choices, compiled
from benchmarks.gpu_roofline import CHIPS, PROBLEMS, Problem, works
from fastweights.files import write_whole
from fastweights.kernels.triton.configuration import Configuration, Precision, every
from fastweights.reporting import fill_markers

TITLES: dict[Precision, str] = {
    "tf32": "tensor cores (tf32): bfloat16, float16, float32 at `high`",
    "ieee": "full float32",
}
PAGE = Path(__file__).parents[1] / "docs" / "gpu.md"


def main() -> None:
    """Compile, check, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="without a decay as well; check only")
    parser.add_argument("--check", action="store_true", help="compile and check; write nothing")
    parser.add_argument("--chips", nargs="+", choices=tuple(TARGETS), default=tuple(TARGETS))
    options = parser.parse_args()
    found: list[Resources] = []
    for chip, name, decays in product(options.chips, KERNELS, (True, False) if options.all else (True,)):
        for configuration in choices(name, chip):
            for resources in compiled(name, chip, configuration, decays):
                found.append(resources)
                say(resources)
    misfits = [resources for resources in found if not resources.fits]
    print(f"{len(found)} kernels compiled, {len(misfits)} that spill registers or need too much shared memory")
    if not (options.all or options.check):
        tables = {"resources": resource_table(found), "roofline": roofline_tables()}
        write_whole(PAGE, fill_markers(PAGE.read_text(encoding="utf-8"), tables))
    sys.exit(bool(misfits))


def say(resources: Resources) -> None:
    """One line for each kernel, as it is compiled."""
    c = resources.configuration
    print(
        f"{resources.chip:7} {resources.kernel + resources.variant:30} {c.precision} k={c.block_k} v={c.block_v}: "
        f"{resources.registers} registers, {resources.spilled} bytes spilled, {resources.shared} bytes shared"
        f"{'' if resources.fits else '  DOES NOT FIT'}",
        flush=True,
    )


def resource_table(found: Iterable[Resources]) -> str:
    """Kernels with their blocks in rows, chips in columns, for products by tensor cores and in full precision."""
    cells = {(x.configuration.precision, x.row, x.chip): x for x in found}
    lines = []
    for precision, by in TITLES.items():
        shape = next(x.configuration for x in cells.values() if x.configuration.precision == precision)
        lines += [f"**{by}; chunks of {shape.chunk} steps, {shape.warps} warps**", ""]
        lines += [
            "| kernel | block of k | block of v | " + " | ".join(TARGETS) + " |",
            "|---|---|---|" + "---|" * len(TARGETS),
        ]
        for row in dict.fromkeys(row for found_precision, row, _ in cells if found_precision == precision):
            needs = [cells[precision, row, chip] for chip in TARGETS]
            shown = [*row, *(f"{x.registers} / {x.spilled} / {x.shared}" for x in needs)]
            lines.append("| " + " | ".join(shown) + " |")
        lines.append("")
    limits = ", ".join(f"{chip} {limit >> 10} KiB" for chip, limit in SHARED_LIMITS.items())
    lines.append(f"Registers of a thread / bytes spilled / bytes of shared memory of a program. Limits: {limits}.")
    return "\n".join(lines)


def roofline_tables() -> str:
    """One table for each problem."""
    chosen = next(every("cuda"))
    return "\n\n".join(roofline_table(problem, chosen) for problem in PROBLEMS)


def roofline_table(problem: Problem, chosen: Configuration) -> str:
    """Bytes, operations, intensity, and the shortest time on each chip with what bounds it."""
    sizes = f"b {problem.batch}, h {problem.heads}, t {problem.steps}, k {problem.key_dim}, v {problem.value_dim}"
    lines = [
        f"**{problem.name}** ({sizes}, bfloat16, decay per head)",
        "",
        "| kernel | MB | GFLOP | FLOP / byte | steps in turn | " + " | ".join(chip.name for chip in CHIPS) + " |",
        "|---|---|---|---|---|" + "---|" * len(CHIPS),
    ]
    kernels = works(problem, chosen)
    for work in kernels:
        times = [f"{1e6 * work.seconds(chip):.0f} µs, {work.bound(chip)}" for chip in CHIPS]
        numbers = f"{work.bytes / 1e6:.1f} | {work.operations / 1e9:.2f} | {work.intensity:.0f} | {work.depth}"
        lines.append(f"| {work.kernel} | {numbers} | " + " | ".join(times) + " |")
    totals = [f"{1e6 * sum(work.seconds(chip) for work in kernels):.0f} µs" for chip in CHIPS]
    moved, done = sum(work.bytes for work in kernels) / 1e6, sum(work.operations for work in kernels) / 1e9
    lines.append(f"| all | {moved:.1f} | {done:.2f} | {1e3 * done / moved:.0f} | | " + " | ".join(totals) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
