"""The figure of a record: training speed by length, and how fast the kernel is beside a matrix product."""

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.competitors import COMPETITORS
from benchmarks.problems import Case
from benchmarks.record import SpeedRecord
from benchmarks.table import best, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"native": "#0072B2", "chunked": "#56B4E9", "transformers": "#E69F00", "sdpa": "#D55E00"}
"""Okabe and Ito: told apart by everyone; markers differ as well."""
MARKERS = {"native": "o", "chunked": "s", "transformers": "^", "sdpa": "D"}
FORWARD, BACKWARD = "#0072B2", "#E69F00"
THREADS = 2


def draw(record: SpeedRecord, path: Path) -> None:
    """Write both panels to a PNG file."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(3, 2), layout="constrained")
        draw_speed(left, record)
        draw_share(right, record)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without a date or a version in it, the same record gives the same bytes.
        figure.savefig(path, dpi=150, metadata={"Software": None})
        plt.close(figure)


def draw_speed(axes: "Axes", record: SpeedRecord) -> None:
    """Tokens per second by length, heads of 64."""
    chosen = [
        m
        for m in record.kind("operator")
        if m["threads"] == THREADS and (m["case"]["key_dim"], m["case"]["value_dim"]) == (64, 64)
    ]
    for name, competitor in COMPETITORS.items():
        points = [
            (m["case"]["steps"], Case(**m["case"]).tokens / seconds)
            for m in chosen
            if (seconds := best(m["times"], name, "training")) is not None
        ]
        if points:
            axes.plot(
                *zip(*sorted(points), strict=True),
                color=COLOURS[name],
                marker=MARKERS[name],
                markersize=5,
                label=competitor.label,
            )
    axes.set(yscale="log", xlabel="sequence length t", ylabel="tokens per second")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_title("Training speed (forward + backward), 8 heads of 64", loc="left", fontsize=10)
    axes.grid(alpha=0.3)
    if chosen:
        axes.legend(frameon=False, fontsize=9)


def draw_share(axes: "Axes", record: SpeedRecord) -> None:
    """Bars by size: per cent of the speed of a matrix product in the same run, at t = 1024."""
    chosen = [m for m in record.kind("operator") if m["threads"] == THREADS and m["case"]["steps"] == 1024]
    labels, highest = [f"({m['case']['key_dim']}, {m['case']['value_dim']})" for m in chosen], 100.0
    for offset, what, colour in ((-0.2, "forward", FORWARD), (0.2, "backward", BACKWARD)):
        shares = []
        for measured in chosen:
            case = Case(**measured["case"])
            flop = case.forward_flop if what == "forward" else case.backward_flop
            shares.append(share(flop, best(measured["times"], "native", what), measured["gemm"]) or 0.0)
        highest = max([highest, *shares])
        bars = axes.bar([i + offset for i in range(len(chosen))], shares, 0.38, color=colour, label=what)
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.bar_label(bars, fmt="%.0f", fontsize=9, padding=1.5, bbox=paper)
    axes.set(xticks=range(len(chosen)), xticklabels=labels, xlabel="(k, v)", ylim=(0, 1.19 * highest))
    axes.axhline(100, color="0.4", linewidth=1, linestyle="--")
    axes.set_title("Native kernel, % of the speed of torch.mm", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=9, loc="upper right", ncols=2)
