"""The tab about capacity: losses by the number of associations with the rank bound, and pictures that fade."""

from html import escape
from itertools import cycle

from fastweights.playground.capacity import SHOWN, bound, curve, feature_dim, hold, stored_pictures
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.pictures import NAMED
from fastweights.playground.view.charts import LINES, Line, lines
from fastweights.playground.view.images import picture_image, picture_legend
from fastweights.playground.view.text import ERROR, number, problem, share


def capacity_view(choices: tuple[MemoryChoice, ...], count: int, strength: float) -> str:
    """Memories with the same keys and pictures; the rank bound is that of the first one's map."""
    try:
        memories = "".join(_memory(place, choice, count, strength) for place, choice in enumerate(choices))
        return f'{_chart(choices, count, strength)}<div class="fw-cards">{_written(count)}{memories}</div>'
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
        top=0.8,
        marks=marks,
    )


def _written(count: int) -> str:
    """The pictures as they should be."""
    cells = "".join(
        f"<figure>{picture_image(picture, name)}<figcaption>{name}</figcaption></figure>"
        for name, picture in zip(_names(count), stored_pictures(min(count, SHOWN)), strict=True)
    )
    first = f", the first {SHOWN} of them" if count > SHOWN else ""
    return (
        f'<section class="fw-memory"><h3>What was written</h3><p>{count} pictures, each under a random key{first}</p>'
        f'<div class="fw-keys fw-many">{cells}</div>{picture_legend()}</section>'
    )


def _memory(place: int, choice: MemoryChoice, count: int, strength: float) -> str:
    held = hold(choice, count, strength)
    cells = "".join(
        f"<figure>{picture_image(picture, f'retrieved where {name} was written')}"
        f"<figcaption>{share(error, f'error-{n}')}</figcaption></figure>"
        for n, (name, picture, error) in enumerate(zip(_names(count), held.pictures, held.errors, strict=True))
    )
    return (
        f'<section class="fw-memory" data-memory="{place}"><h3>{escape(choice.name)}</h3>'
        f"<p>What the keys retrieve, with the error {ERROR}; {feature_dim(choice)} features, "
        f"loss {number(held.loss, 'loss')}</p>"
        f'<div class="fw-keys fw-many">{cells}</div></section>'
    )


def _names(count: int) -> list[str]:
    """Of the pictures that are shown."""
    return [name for name, _ in zip(cycle(NAMED), range(min(count, SHOWN)), strict=False)]
