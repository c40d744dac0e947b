"""A memory before and after one association is overwritten (Sec. 4.2), as small pictures."""

from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from fastweights.feature_maps import DPFP
from fastweights.memory import FastWeightState, L2Normalisation, WriteInputs, run_rule
from fastweights.reporting import Drawing, print_table
from fastweights.shapes import Keys, Values, Weights
from fastweights.update_rules import DeltaRule, SumRule, UpdateRule

PICTURES = {
    "heart": ".##.##. ####### ####### ####### .#####. ..###.. ...#...",
    "sun": "...#... .#.#.#. ..###.. ####### ..###.. .#.#.#. ...#...",
    "tree": "...#... ..###.. .#####. ..###.. .#####. ####### ...#...",
    "drop": "...#... ..###.. ..###.. .#####. .#####. .#####. ..###..",
    "moon": "..###.. .##.... ##..... ##..... ##..... .##.... ..###..",
    "house": "...#... ..###.. .#####. ####### .#...#. .#.#.#. .#.#.#.",
    "fish": "....... .##...# ####.## ####### ####.## .##...# .......",
}
"""Values: 7 × 7 pixels, 1 where there is ink."""

WRITTEN = {"red": "heart", "yellow": "sun", "green": "tree", "blue": "drop", "white": "moon", "brown": "house"}
CHANGED, REPLACEMENT = "blue", "fish"
SHOWN_RULES: dict[str, UpdateRule] = {"sum rule": SumRule(), "delta rule": DeltaRule()}
KEY_DIM = 32
SIDE = 7

BLUE, PURPLE, ORANGE = "#0b4f8a", "#7d5480", "#f28e1c"
INK = LinearSegmentedColormap.from_list("ink", [(0.0, "#ffffff"), (0.5, BLUE), (0.75, PURPLE), (1.0, ORANGE)])
"""No ink is white, ink is blue, ink on top of ink turns orange: told apart with any kind of colour vision."""
CHANGE = LinearSegmentedColormap.from_list("change", [(0.0, ORANGE), (0.5, "#ffffff"), (1.0, BLUE)])


@dataclass(frozen=True)
class Recall:
    """The memory of one rule, and the value that every key retrieved, before and after the overwrite."""

    weights: tuple[Weights, Weights]
    reads: tuple[Values, Values]


def run(folder: Path, seed: int = 0) -> None:
    """Print what both rules retrieve, draw it, and say where the figure is."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: expected a folder, this is a file")
    folder.mkdir(parents=True, exist_ok=True)
    keys = make_keys(seed)
    recalls = {name: recall(rule, keys) for name, rule in SHOWN_RULES.items()}
    print(
        f"Six associations were written into a memory of {SIDE * SIDE} × {keys.shape[-1]} fast weights; "
        f"then {CHANGED!r} was overwritten: {WRITTEN[CHANGED]} → {REPLACEMENT}.\n"
    )
    columns = ["key", "first written", "stored now", *(f"{name} retrieves" for name in recalls)]
    print_table("What each key retrieves now, and how far off it is", columns, table_rows(recalls))
    path = folder / "memory.png"
    draw(recalls).savefig(path, dpi=160)
    print(f"The figure is in {path}")


def drawing(seed: int = 0) -> Drawing:
    """The figure with its caption, for a report."""
    recalls = {name: recall(rule, make_keys(seed)) for name, rule in SHOWN_RULES.items()}
    return Drawing(
        "memory",
        draw(recalls),
        "Retrieved values (left) and the fast weights W as heat maps (right), before and after "
        f"{CHANGED!r} was overwritten.",
        "Under the sum rule the overwritten key retrieves the old and the new picture on top of each "
        "other, under the delta rule the new one alone.",
        raster=True,
    )


def make_keys(seed: int) -> Keys:
    """One random key per association, mapped and normalised as a layer would do it."""
    generator = torch.Generator().manual_seed(seed)
    symbols = torch.randn(1, 1, len(WRITTEN), KEY_DIM, generator=generator)
    return L2Normalisation()(DPFP(nu=1)(symbols))


def picture(name: str) -> Tensor:
    """The pixels of a picture as one value vector."""
    return torch.tensor([float(pixel == "#") for pixel in PICTURES[name].replace(" ", "")])


def recall(rule: UpdateRule, keys: Keys) -> Recall:
    """Write all associations, read them, overwrite one, read again."""
    values = torch.stack([picture(name) for name in WRITTEN.values()])[None, None]
    empty = FastWeightState.zeros(1, 1, SIDE * SIDE, keys.shape[-1])
    before = write(rule, keys, values, empty)
    changed = list(WRITTEN).index(CHANGED)
    after = write(rule, keys[:, :, changed : changed + 1], picture(REPLACEMENT)[None, None, None], before)
    return Recall(
        weights=(before.weights, after.weights), reads=(rule.read(before.weights, keys), rule.read(after.weights, keys))
    )


def write(rule: UpdateRule, keys: Keys, values: Values, state: FastWeightState) -> FastWeightState:
    """The state after writing every pair at full strength."""
    full_strength = torch.ones(keys.shape[:-1])
    return run_rule(rule, WriteInputs(keys, values, {"beta": full_strength}), keys, state)[1]


def table_rows(recalls: dict[str, Recall]) -> list[list[str]]:
    """For each key what is stored, which pictures make up what it retrieves, and the error of that."""
    rows = []
    for i, (key, first) in enumerate(WRITTEN.items()):
        now = REPLACEMENT if key == CHANGED else first
        reads = [recall.reads[1][0, 0, i] for recall in recalls.values()]
        cells = [f"{describe(read)} ({relative_error(read, picture(now)):.0%} off)" for read in reads]
        rows.append([key, first, now, *cells])
    return rows


def describe(read: Tensor) -> str:
    """The pictures whose mixture is nearest to what was read, those with a share of at least a third."""
    pixels = torch.stack([picture(name) for name in PICTURES], dim=1)
    shares = torch.linalg.lstsq(pixels, read[:, None]).solution[:, 0]
    return " + ".join(name for name, share in zip(PICTURES, shares.tolist(), strict=True) if share > 1 / 3) or "nothing"


def relative_error(read: Tensor, stored: Tensor) -> float:
    """|retrieved - stored| / |stored|."""
    return float((read - stored).norm() / stored.norm())


def draw(recalls: dict[str, Recall]) -> Figure:
    """Draw the stored values; then, for each rule, the retrieved ones before and after, and the memory."""
    figure = Figure(figsize=(10.2, 7.6), layout="constrained")
    figure.suptitle(
        f"One association is overwritten: {CHANGED} meant {WRITTEN[CHANGED]}, now it means {REPLACEMENT}",
        fontsize=14,
        weight="bold",
    )
    widths = [1.0] * len(WRITTEN) + [1.9]
    axes: list[list[Axes]] = figure.subplots(1 + 2 * len(recalls), len(widths), width_ratios=widths).tolist()
    stored = torch.stack([picture(REPLACEMENT if key == CHANGED else name) for key, name in WRITTEN.items()])
    draw_pictures(axes[0], "stored now", stored)
    for axis, key in zip(axes[0], WRITTEN, strict=False):
        axis.set_title(key, weight="bold" if key == CHANGED else "normal")
    draw_legend(figure, axes[0][-1])
    for i, (name, recall) in enumerate(recalls.items()):
        before, after = recall.weights
        draw_pictures(axes[2 * i + 1], f"{name}\nbefore", recall.reads[0][0, 0])
        draw_matrix(axes[2 * i + 1][-1], before[0, 0], "fast weights W")
        draw_pictures(axes[2 * i + 2], f"{name}\nafter", recall.reads[1][0, 0])
        draw_matrix(axes[2 * i + 2][-1], (after - before)[0, 0], "its change (blue +, orange −)")
    return figure


def draw_pictures(axes: list[Axes], label: str, reads: Tensor) -> None:
    """One row of retrieved values, each with the names of the pictures that are in it."""
    axes[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=11, labelpad=8)
    for axis, key, read in zip(axes, WRITTEN, reads, strict=False):
        axis.imshow(read.reshape(SIDE, SIDE).numpy(), cmap=INK, vmin=0, vmax=2)
        axis.set_xlabel(describe(read), fontsize=9, weight="bold" if key == CHANGED else "normal")
        hide_ticks(axis)
        if key == CHANGED:
            axis.add_patch(Rectangle((-0.5, -0.5), SIDE, SIDE, fill=False, edgecolor="black", linewidth=4))


def draw_matrix(axis: Axes, matrix: Tensor, title: str) -> None:
    """A heat map of weights, blue where they add ink and orange where they take it away."""
    limit = float(matrix.abs().max())
    axis.imshow(matrix.numpy(), cmap=CHANGE, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    axis.set_title(title, fontsize=9)
    hide_ticks(axis)


def draw_legend(figure: Figure, axis: Axes) -> None:
    """The colours of ink, where the stored values have no matrix to show."""
    axis.axis("off")
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 2), INK),
        cax=axis.inset_axes((0.05, 0.5, 0.9, 0.12)),
        orientation="horizontal",
        ticks=[0, 1, 2],
    )
    bar.set_ticklabels(["none", "ink", "twice"], fontsize=9)


def hide_ticks(axis: Axes) -> None:
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_edgecolor("#999999")
