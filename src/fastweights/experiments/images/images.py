"""Pictures: what an untrained memory retrieves of them, and labels that are learned in context and change."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.data.episodes import OFTEN
from fastweights.experiments.images.image_memory import KEY_MAPS, LENGTHS, SHOWN, SIZES, decode
from fastweights.experiments.images.presets import MODELS, errors_of, memories, runs_by_model, scores
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.experiments.scores import AccuracyScores, percent
from fastweights.experiments.series import CONTENDER_SERIES
from fastweights.files import Json
from fastweights.reporting import GREY, Drawing, Table, draw
from fastweights.runs.display import number
from fastweights.training.run import Run

TITLE = "Images: pictures in a memory, and labels that change"
TEXT = (
    "Handwritten digits of MNIST. Above: pictures of 784 pixels are the values that are written, at full strength and "
    "under random keys, into a memory that nothing has trained. Below: a model is shown pictures with labels that are "
    "drawn anew for every episode and change places during it, and has to name the next picture."
)
ARGUMENTS = " --data mnist"
GROUPS = (0, 1, 2, OFTEN)


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Every model with every seed; softmax attention, which decides nothing, and `quick` with one."""
    return [run for _, run in runs_by_model(options)]


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """Retrieved pictures and their errors, and right labels."""
    found, labels = memories(records), scores(records)
    shown = {model: measured[0] for model, measured in found.items()}
    retrieved = (drawing(shown),) if shown else ()
    return *retrieved, labels_drawing(labels), memory_table(found), labels_table(labels)


def memory_table(found: dict[str, list[Json]]) -> Table:
    """The error by model, map, keys and writes per key."""
    rows = []
    for model, measured in found.items():
        for name, feature_map in KEY_MAPS.items():
            cells = [number(errors_of(measured, name, keys, length)) for keys in SIZES for length in LENGTHS]
            features = feature_map.feature_dim(64)
            label = {"dpfp": "DPFP-1", "elu": "ELU+1"}[name]
            rows.append((CONTENDER_SERIES[model].label, f"{label}, {features}", *cells))
    heads = (f"{keys} keys, {length} × as many writes" for keys in SIZES for length in LENGTHS)
    caption = "Squared error of retrieved pictures; 1 is that of the mean picture. Means over seeds."
    return Table("image-memory", caption, ("model", "map, features", *heads), tuple(rows))


def labels_table(answers: AccuracyScores) -> Table:
    """Right labels by model, length and number of changes."""
    rows = []
    for model in MODELS:
        cells = [percent(answers.of((model,), test)) for test in ("x1", "x4")]
        cells += [percent(answers.of((model,), "x4", str(group))) for group in GROUPS]
        if cells[0] != "–":
            rows.append((CONTENDER_SERIES[model].label, *cells))
    groups = (f"label changed {group}{' or more' if group == OFTEN else ''} times, 4 ×" for group in GROUPS)
    columns = ("model", "24 pictures", "4 × as many", *groups)
    caption = "Right labels in per cent; ± is the standard deviation over three seeds. Guessing has 25."
    return Table("image-labels", caption, columns, tuple(rows))


def drawing(shown: dict[str, Json]) -> Drawing:
    """A row of pictures for what is stored and one for what each model retrieves."""
    stored = decode(next(iter(shown.values()))["stored"])
    rows = {"stored": stored} | {
        CONTENDER_SERIES[model].label.replace(", ", ",\n").replace(" (the paper's)", ""): decode(measured["retrieved"])
        for model, measured in shown.items()
    }

    def fill(figure: Figure) -> None:
        panels = figure.subplots(len(rows), len(stored), squeeze=False)
        for line, (label, pictures) in zip(panels, rows.items(), strict=True):
            for axes, picture in zip(line, pictures, strict=True):
                draw_picture(axes, picture)
            line[0].set_ylabel(label, rotation=0, ha="right", va="center", labelpad=10)

    keys, length = SHOWN
    return Drawing(
        "image-memory",
        draw(9.0, 1.0 * len(rows) + 0.3, fill),
        f"What {keys} keys retrieve after {length * keys} writes, most of them overwritten, from memories that nothing "
        "has trained. DPFP-1, full write strength.",
        "The sum rule retrieves old and new digits on top of each other, the sum-normalised delta rule faint mixtures, "
        "the delta rule with L2 and with centred L2 the digits that were written last.",
        raster=True,
    )


def draw_picture(axes: Axes, picture: object) -> None:
    """Ink on white, without an axis."""
    axes.imshow(picture, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")  # type: ignore[arg-type]
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set(visible=True, edgecolor="#bbbbbb")


def labels_drawing(answers: AccuracyScores) -> Drawing:
    """Right labels by how often they changed, in longer episodes."""

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        groups = range(OFTEN + 1)
        for model in MODELS:
            means = [answers.mean((model,), "x4", str(group)) for group in groups]
            points = [(group, 100 * mean) for group, mean in zip(groups, means, strict=True) if mean is not None]
            if points:
                axes.plot(*zip(*points, strict=True), **CONTENDER_SERIES[model].ours())
        axes.axhline(25, color=GREY, linestyle=":", linewidth=1.2, zorder=1)
        axes.set_xticks(list(groups), [*map(str, groups[:-1]), f"≥{OFTEN}"])
        axes.set(xlabel="times the label had changed", ylabel="right labels (%)", ylim=(15, 102))
        if answers:
            axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))

    return Drawing(
        "image-labels",
        draw(9.0, 4.0, fill),
        "Right labels of pictures in episodes of 4 × the trained length, by how often the label had changed. Dotted: "
        "guessing. Lines are means over seeds.",
        "Centred L2 is ahead of L2, NLMS, sum normalisation and the sum rule, and does not fall as labels change.",
    )
