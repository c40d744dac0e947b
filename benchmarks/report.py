"""From a record to what people read: tables on the terminal, the figure, and both in README and docs/benchmarks.md.

`python -m benchmarks.report` publishes benchmarks/results/speed.json; nothing between the markers is typed by hand.
"""

from pathlib import Path

from benchmarks import (
    accelerate,
    decays,
    decoding,
    feature_maps,
    generation,
    language_models,
    layer_parts,
    layouts,
    lengths,
    operators,
    peak_memory,
    peers,
    shortcuts,
    stacks,
    synthetic,
    traces,
    translation,
)
from benchmarks.figure import draw
from benchmarks.record import SpeedRecord
from benchmarks.table import Table
from fastweights.files import write_whole
from fastweights.reporting import fill_markers, print_table

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "results" / "speed.json"
FIGURE = ROOT / "docs" / "figures" / "speed.png"
NAME = "speed"
MARKER = f"<!-- {NAME} -->"

TABLES = (
    layouts.table,
    operators.table,
    lengths.table,
    decays.table,
    decoding.table,
    shortcuts.table,
    stacks.table,
    language_models.table,
    translation.table,
    translation.document_table,
    generation.table,
    peers.table,
    accelerate.table,
    synthetic.table,
    feature_maps.table,
    layer_parts.table,
    traces.table,
    peak_memory.table,
)
"""Every table in the order in which it is shown; each stands with its measurement."""

__all__ = ["draw", "print_tables", "publish"]


def all_tables(record: SpeedRecord) -> list[Table]:
    """Every table that has rows."""
    return [table for make in TABLES if (table := make(record)).rows]


def print_tables(record: SpeedRecord) -> None:
    """Everything, to standard output."""
    for table in all_tables(record):
        print_table(*table)


def machine(record: SpeedRecord) -> str:
    """One sentence on where and when."""
    here, versions = record.environment, record.environment["packages"]
    return (
        f"{here['processor']} ({here['instructions']}), {here['cores']} cores, float32, torch {versions['torch']}, "
        f"transformers {versions['transformers']}, {record.date}, commit {record.commit}; best of several repetitions "
        "in turns."
    )


def summary(record: SpeedRecord) -> str:
    """What the README shows: the figure and the shortest table."""
    lines = [
        "![Training speed by sequence length, and the kernel beside a matrix product](docs/figures/speed.png)",
        "",
        operators.headline(record).markdown(),
        f"Times and ratios are forward / forward + backward, on 2 threads. {machine(record)}",
    ]
    return "\n".join([*lines, *sentences(record)])


def sentences(record: SpeedRecord) -> list[str]:
    """The figures on decoding and whole training steps, where they were measured."""
    said = []
    steps = {row[0]: row for row in decoding.table(record).rows}
    if "native step" in steps and "eager step" in steps:
        said.append(
            f"One decoding step takes {steps['native step'][1]} µs, Python call included, "
            f"{steps['eager step'][2]} faster than the same step in eager PyTorch."
        )
    named = {row[0]: row for row in stacks.table(record).rows if row[1] == "2"}
    if "delta, DPFP-1" in named:
        said.append(
            f"A training step of a 4-layer, 256-wide stack at t = 1024 takes {named['delta, DPFP-1'][2]} ms with the "
            f"delta rule and DPFP-1, {named['delta, DPFP-1'][3]} faster than with softmax attention."
        )
    trained = language_models.table(record).rows
    measured = [row for row in trained if row[0] == "delta, DPFP-1" and row[2] == "2"]
    if measured:
        ratios = ", ".join(f"{row[4]} at L = {row[1]}" for row in measured)
        said.append(
            f"The language model for CPUs trains on {measured[0][3]} words per second, embedding and softmax included, "
            f"{measured[0][6]} of what it would do with no attention at all. In segments of L words it is faster than "
            f"with softmax attention: {ratios}."
        )
    return said


def details(record: SpeedRecord) -> str:
    """What docs/benchmarks.md shows: all tables."""
    parts = [f"{machine(record)}\n"]
    parts += [f"Measured with commit {commit}: {', '.join(names)}.\n" for commit, names in record.later.items()]
    parts += [f"### {table.title}\n\n{table.markdown()}" for table in all_tables(record)]
    return "\n".join(parts).rstrip("\n")


def updated(text: str, content: str, path: Path) -> str:
    """The text with what stands between its markers replaced."""
    if MARKER not in text:
        raise ValueError(f"{path}: expected {MARKER!r} and its end, between which the results go")
    return fill_markers(text, {NAME: content})


def publish(record: SpeedRecord) -> None:
    """Write figure, README and docs/benchmarks.md; refused if any result was wrong."""
    if record.refusals:
        raise ValueError(f"record: {len(record.refusals)} results disagree with the oracle: {record.refusals}")
    draw(record, FIGURE)
    for path, content in ((ROOT / "README.md", summary(record)), (ROOT / "docs" / "benchmarks.md", details(record))):
        write_whole(path, updated(path.read_text(encoding="utf-8"), content, path))


if __name__ == "__main__":
    if not RECORD.exists():
        raise SystemExit(f"error: there is no {RECORD}; make it with `python -m benchmarks --out benchmarks/results`")
    publish(SpeedRecord.read(RECORD))
