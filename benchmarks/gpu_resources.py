"""The tables of docs/gpu.md: `python -m benchmarks.gpu_resources` compiles the kernels for every chip and writes both.

With --all every configuration that `auto` can choose is compiled and checked, which takes an hour; nothing is written.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.gpu_compile import KERNELS, SHARED_LIMITS, TARGETS, Resources, compiled, defaults
from benchmarks.gpu_roofline import CHIPS, PROBLEMS, Problem, works
from fastweights.files import write_whole
from fastweights.kernels.triton.configuration import Configuration, every
from fastweights.reporting import fill_markers

PAGE = Path(__file__).parents[1] / "docs" / "gpu.md"


def main() -> None:
    """Compile, check, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every configuration instead of the largest; check only")
    parser.add_argument("--check", action="store_true", help="compile and check; write nothing")
    parser.add_argument("--chips", nargs="+", choices=tuple(TARGETS), default=tuple(TARGETS))
    options = parser.parse_args()
    found: list[Resources] = []
    for chip in options.chips:
        for configuration in every(TARGETS[chip].backend) if options.all else defaults(chip):
            for name in KERNELS:
                for resources in compiled(name, chip, configuration):
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
        f"{resources.chip:7} {resources.kernel:30} {c.precision} C={c.chunk} k={c.block_k} v={c.block_v}: "
        f"{resources.registers} registers, {resources.spilled} bytes spilled, {resources.shared} bytes shared"
        f"{'' if resources.fits else '  DOES NOT FIT'}",
        flush=True,
    )


def resource_table(found: Iterable[Resources]) -> str:
    """Kernels in rows, chips in columns, for products by tensor cores and in full precision."""
    cells = {(x.configuration.precision, x.kernel, x.chip): x for x in found}
    chips = list(TARGETS)
    lines = []
    for precision in ("tf32", "ieee"):
        shape = next(x.configuration for x in cells.values() if x.configuration.precision == precision)
        lines += [
            f"**{title(shape)}**",
            "",
            "| kernel | " + " | ".join(chips) + " |",
            "|---|" + "---|" * len(chips),
        ]
        for kernel in dict.fromkeys(name for found_precision, name, _ in cells if found_precision == precision):
            row = [cells[precision, kernel, chip] for chip in chips]
            lines.append(f"| {kernel} | " + " | ".join(f"{x.registers} / {x.spilled} / {x.shared}" for x in row) + " |")
        lines.append("")
    limits = ", ".join(f"{chip} {limit >> 10} KiB" for chip, limit in SHARED_LIMITS.items())
    lines.append(f"Registers of a thread / bytes spilled / bytes of shared memory of a program. Limits: {limits}.")
    return "\n".join(lines)


def title(shape: Configuration) -> str:
    """Precision and block sizes in words."""
    by = "tensor cores (tf32): bfloat16, float16, float32 at `high`" if shape.precision == "tf32" else "full float32"
    sizes = f"chunks of {shape.chunk} steps, blocks of {shape.block_k} features and {shape.block_v} values"
    return f"{by}; {sizes}, {shape.warps} warps"


def roofline_tables() -> str:
    """One table for each problem."""
    chosen = defaults("sm_80")[0]
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
