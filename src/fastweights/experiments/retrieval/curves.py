"""Figures 3 and 4: learning curves."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fastweights.experiments.retrieval.bounds import layer_norm_bound, layer_norm_floor, order_blind_floor, rank_bound
from fastweights.reporting.drawing import Drawing, draw
from fastweights.experiments.retrieval.series import CAPACITY, DETERMINISTIC, GREY, OVERWRITING, Series, feature_dim
from fastweights.experiments.retrieval.outcomes import Outcomes

STOP_LOSS = 0.001


def figure3(ours: Outcomes, published: Outcomes, num_keys: int) -> Drawing:
    """Overwriting: loss during training for each update rule, every seed a line."""

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        for (model, rule), series in OVERWRITING.items():
            draw_curves(axes, ours.where(model=model, rule=rule), series)
            draw_ends(axes, published.where(model=model, rule=rule), series)
        axes.set(xscale="log", yscale="log", xlabel="training step", ylabel="evaluation loss")
        axes.set(xlim=(90, 45_000), ylim=(4e-4, 100))
        draw_level(axes, layer_norm_bound(num_keys), "unit-variance reads: ½(1 + S − 2√(S − 1))")
        draw_level(axes, order_blind_floor(num_keys, num_keys), "order-blind rules, evaluated on L = S")
        draw_level(axes, order_blind_floor(num_keys, 2 * num_keys), "order-blind rules, evaluated on L = 2S")
        draw_level(axes, layer_norm_floor(num_keys), "layer-normalised reads: 1/(2S)")
        draw_level(axes, STOP_LOSS, "training stops")
        draw_legend(axes)

    return Drawing(
        "figure3",
        draw(10.2, 5.0, fill),
        f"Learning to overwrite (Figure 3 of the paper; S = {num_keys}, sequences of {2 * num_keys}). One "
        "line per seed; open symbols: where the published runs ended. Grey lines: what theory allows. The "
        "delta rule reaches the stopping loss; the sum rule ends on the floor of rules that forget the "
        "order of writes; the layer norm of Schlag (2021) keeps it from ever reaching the stopping loss.",
        "Learning curves on logarithmic axes: the delta rule falls to 0.001 within about a thousand steps, "
        "the sum rule stays near 0.1, the Schlag (2021) baselines stay above.",
    )


def figure4(ours: Outcomes, published: Outcomes, num_keys: int) -> Drawing:
    """Capacity: loss during training at one S, every model a line."""

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        for model, series in CAPACITY.items():
            draw_curves(axes, ours.where(model=model), series, marker_every=0.12)
            draw_ends(axes, published.where(model=model), series)
            if model in DETERMINISTIC:
                bound = rank_bound(feature_dim(model) or 0, num_keys)
                axes.axhline(bound, color=series.colour, linestyle=":", linewidth=1.2, zorder=1)
        axes.set(xlabel=f"training step, S = {num_keys}", ylabel="evaluation loss", ylim=(-0.01, 0.55))
        axes.set_xlim(left=0)
        draw_legend(axes)

    return Drawing(
        "figure4",
        draw(9.2, 4.5, fill),
        f"Learning curves with S = {num_keys} associations (Figure 4 of the paper). Open symbols: where "
        "the published runs ended; dotted: the rank bound of each feature map"
        + ("; thin lines: the same model with other seeds." if len({run.seed for run in ours}) > 1 else "."),
        "Learning curves: each linear memory settles on its rank bound, softmax goes towards zero.",
    )


def draw_curves(axes: Axes, runs: Outcomes, series: Series, marker_every: float = 0.1) -> None:
    """One line per seed, the first one with symbols and a label."""
    style = series.ours()
    for index, outcome in enumerate(runs):
        steps, losses = zip(*outcome.curve, strict=True) if outcome.curve else ((), ())
        if index == 0:
            axes.plot(steps, losses, markevery=marker_every, **style)
        else:
            thin = style | {"marker": "", "linewidth": 1.0, "alpha": 0.8, "label": None}
            axes.plot(steps, losses, **thin)


def draw_ends(axes: Axes, runs: Outcomes, series: Series) -> None:
    """Where published runs ended: their curves are not public in a form to draw, their ends are."""
    for outcome in runs:
        axes.plot(
            outcome.steps,
            outcome.last,
            marker=series.marker,
            markersize=8,
            markerfacecolor="none",
            markeredgecolor=series.colour,
            markeredgewidth=1.3,
            linestyle="none",
            zorder=4,
        )


def draw_legend(axes: Axes) -> None:
    """Our runs by name, beside the axes, and what open symbols mean."""
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        corner = (1.01, 1.0)
        names = axes.legend(loc="upper left", bbox_to_anchor=corner, title="our runs", alignment="left")
        axes.add_artist(names)
        # What is clipped to the axes, as added artists are, gets no room outside of them.
        names.set_clip_on(False)
    end = Line2D([], [], linestyle="none", marker="o", markersize=8, label="where a published run ended")
    end.set(markerfacecolor="none", markeredgecolor=GREY)
    axes.legend(handles=[end], loc="lower left", bbox_to_anchor=(1.01, 0.0))


def draw_level(axes: Axes, level: float, label: str) -> None:
    """A horizontal line that theory draws, with its name at the right end."""
    axes.axhline(level, color=GREY, linestyle=(0, (4, 3)), linewidth=0.9, zorder=1)
    right = axes.get_xlim()[1]
    axes.text(right, level * 1.06, f"{label} = {level:.3g}", ha="right", va="bottom", fontsize=8, color="#555555")
