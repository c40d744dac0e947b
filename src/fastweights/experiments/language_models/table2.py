"""Table 2: update rules with each feature map, as a table and as a picture (Sec. 6.3)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.experiments.language_models.perplexities import PAPER, Perplexities, perplexities
from fastweights.experiments.language_models.tables import PaperTable
from fastweights.experiments.records import Records
from fastweights.reporting import BLACK, BLUE, GREY, VERMILION, Drawing, Table, draw

TITLE = "Table 2: update rules"
TEXT = (
    "Every model sees the same tokens in the same order. The delta rule should be below the sum rule with "
    "each feature map, and the Transformer, which keeps every key and value of its window, below both."
)
ARGUMENTS = " --threads 1"
TABLE = PaperTable(
    "table2",
    ("model", "update rule"),
    {
        ("Transformer", "–"): "transformer",
        ("Linear", "sum"): "linear-sum",
        ("Linear", "delta"): "linear-delta",
        ("Performer", "sum"): "performer-sum",
        ("Performer", "delta"): "performer-delta",
    },
    ("small", "medium"),
)
MAPS = {
    "linear": "Linear (ELU+1)",
    "performer": "Performer, as many features\nas dimensions",
    "performer-wide": "Performer, twice as many",
    "dpfp": "DPFP-1",
}
PAPER_SIZE = "small"

runs, coverage, data = TABLE.runs, TABLE.coverage, TABLE.data


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """The table, and the gain of each feature map once there are models."""
    ours = perplexities(records)
    return *((rules_figure(ours),) if ours.found.get("cpu") else ()), *TABLE.contents(records)


def rules_figure(ours: Perplexities) -> Drawing:
    """The paper's small models beside ours: from sum to delta for each map, and the Transformer."""

    def fill(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        draw_gains(left, PAPER, PAPER_SIZE)
        draw_gains(right, ours, "cpu")
        left.set_title("the paper (WikiText-103)")
        right.set_title("ours (WikiText-2)")
        left.set_yticks(range(len(MAPS)), list(MAPS.values()))
        left.invert_yaxis()
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)

    return Drawing(
        "rules",
        draw(9.2, 3.6, fill),
        "Test perplexity of language models (Tables 2 and 5 of the paper): lower is better. An arrow goes from the sum "
        "rule to the delta rule with the same feature map; the dashed line is the Transformer with softmax attention.",
        "Two panels of arrows from the sum rule to the delta rule for four feature maps; the Transformer is a line.",
    )


def draw_gains(axes: Axes, models: Perplexities, size: str) -> None:
    """A line from sum to delta for every map that has both."""
    for row, name in enumerate(MAPS):
        before, after = models.get(size, f"{name}-sum"), models.get(size, f"{name}-delta")
        if before is not None and after is not None:
            axes.annotate(
                "",
                (after.test, row),
                (before.test, row),
                arrowprops={"arrowstyle": "-|>", "color": GREY, "shrinkA": 5, "shrinkB": 5},
            )
        for found, colour, marker, label, above in (
            (before, VERMILION, "o", "sum rule", True),
            (after, BLUE, "D", "delta rule", False),
        ):
            if found is not None:
                axes.plot(
                    found.test,
                    row,
                    color=colour,
                    marker=marker,
                    markersize=8,
                    linestyle="none",
                    label=label if row == 0 else None,
                )
                place = (0, 7 if above else -15)
                axes.annotate(
                    f"{found.test:.1f}", (found.test, row), place, textcoords="offset points", ha="center", fontsize=8
                )
    transformer = models.get(size, "transformer")
    if transformer is not None:
        axes.axvline(transformer.test, color=BLACK, linestyle="--", linewidth=1, label="Transformer")
    axes.set(xlabel="test perplexity", ylim=(-0.6, len(MAPS) - 0.5))
    axes.margins(x=0.12)
