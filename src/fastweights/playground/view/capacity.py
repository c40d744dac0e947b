"""The tab about capacity: losses by the number of associations with the rank bound, and pictures that fade."""

from html import escape

from fastweights.playground.capacity import SHOWN, bound, curve, feature_dim, hold
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.pictures import NAMED
from fastweights.playground.view.charts import LINES, Line, lines
from fastweights.playground.view.images import picture_image
from fastweights.playground.view.text import number, problem, share


def capacity_view(choices: tuple[MemoryChoice, ...], count: int, strength: float) -> str:
    """Memories with the same keys and pictures; the rank bound is that of the first one's map."""
    try:
        return _chart(choices, count, strength) + "".join(_memory(n, c, count, strength) for n, c in enumerate(choices))
    except ValueError as error:
        return problem(str(error))


def _chart(choices: tuple[MemoryChoice, ...], count: int, strength: float) -> str:
    drawn, bounded = [], dict[int, MemoryChoice]()
    for place, choice in enumerate(choices):
        drawn.append(Line(choice.name, curve(choice, strength), f"fw-line-{place}", LINES[place]))
        bounded.setdefault(feature_dim(choice), choice)
    for features, choice in bounded.items():
        drawn.append(Line(f"rank bound, d_dot = {features}", bound(choice), "fw-bound", "1 3"))
    marks = [(features, f"d_dot = {features}") for features in bounded] + [(count, f"S = {count}")]
    return lines(
        drawn,
        "associations S",
        "loss ½|v − v̂|²",
        "Retrieval loss by the number of associations, with the rank bound",
        top=0.75,
        marks=marks,
    )


def _memory(place: int, choice: MemoryChoice, count: int, strength: float) -> str:
    held, names = hold(choice, count, strength), list(NAMED)
    cells = "".join(
        f"<figure>{picture_image(picture, names[n % len(names)])}"
        f"<figcaption>{share(error, f'error-{n}')} off</figcaption></figure>"
        for n, (picture, error) in enumerate(zip(held.pictures, held.errors, strict=True))
    )
    rest = f", the first {SHOWN} of them shown" if count > SHOWN else ""
    return (
        f'<section class="fw-memory" data-memory="{place}"><h3>{escape(choice.name)}</h3>'
        f"<p>{count} pictures under random keys{rest}; {feature_dim(choice)} features; "
        f"loss {number(held.loss, 'loss')}</p>"
        f'<div class="fw-keys fw-many">{cells}</div></section>'
    )
