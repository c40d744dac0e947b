"""The tab about a language model: its text token by token, β by layer and head, erasures, and how full memories are."""

from html import escape

import torch

from fastweights.experiments.demo.memory import CHANGE
from fastweights.playground.reading import TextReading
from fastweights.playground.view.charts import LINES, Line, lines
from fastweights.playground.view.images import image
from fastweights.playground.view.text import number

STRONGEST_SHADE = 12.0
"""Surprise, in nats, from which on a token has the full colour."""


def tokens_view(reading: TextReading, chosen: int) -> str:
    """Every token as a button, coloured by its surprise."""
    cells = []
    for place, (symbol, surprise) in enumerate(zip(reading.symbols, reading.surprises, strict=True)):
        shade = 0 if surprise is None else min(surprise / STRONGEST_SHADE, 1.0)
        spoken = "" if surprise is None else f", surprise {surprise:.2f}"
        cells.append(
            f'<button type="button" data-token="{place}" aria-pressed="{str(place == chosen).lower()}" '
            f'data-value="{"" if surprise is None else repr(surprise)}" style="--fw-shade:{shade:.3f}" '
            f'aria-label="{escape(shown(symbol), quote=True)}{spoken}" title="position {place}{spoken}">'
            f"{escape(shown(symbol))}</button>"
        )
    scored = [surprise for surprise in reading.surprises if surprise is not None]
    mean = number(sum(scored) / len(scored), "mean-surprise")
    return (
        f'<p class="fw-note">{len(reading.tokens)} tokens, mean surprise −log p {mean} nats. The darker a token, the '
        "more it surprised the model; choose one to see what it wrote and what it overwrote.</p>"
        f'<div class="fw-tokens">{"".join(cells)}</div>'
    )


def token_view(reading: TextReading, chosen: int) -> str:
    """One token: β of every layer and head, and what it overwrote."""
    if not 0 <= chosen < len(reading.tokens):
        raise ValueError(f"token: expected a position from 0 to {len(reading.tokens) - 1}, got {chosen}")
    surprise = reading.surprises[chosen]
    heads = "".join(f"<th scope=col>head {head}</th>" for head in range(len(reading.strengths[0])))
    rows = "".join(
        f"<tr><th scope=row>{escape(layer)}</th>"
        + "".join(
            f"<td>{number(beta, f'beta-{place}-{head}', 3)}</td>" for head, beta in enumerate(betas[:, chosen].tolist())
        )
        + "</tr>"
        for place, (layer, betas) in enumerate(zip(reading.layers, reading.strengths, strict=True))
    )
    erased = "".join(
        f"<li>{number(erasure.share, f'erased-{place}', 3)} of what "
        f"<b>{escape(shown(reading.symbols[erasure.earlier]))}</b> "
        f"(position {erasure.earlier}) had written, in {escape(erasure.layer)}, head {erasure.head}</li>"
        for place, erasure in enumerate(reading.erasures[chosen])
    )
    return (
        f"<h3>{escape(shown(reading.symbols[chosen]))} <small>position {chosen}, surprise "
        f"{number(surprise, 'surprise')}</small></h3>"
        '<div class="fw-scroll" tabindex="0" role="region" aria-label="Write strengths of this token">'
        "<table><caption>Write strength β by layer and head</caption>"
        f"<thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"<p><b>What it overwrote</b></p>{f'<ol>{erased}</ol>' if erased else '<p>Nothing of any token before it.</p>'}"
    )


def memory_view(reading: TextReading) -> str:
    """β of all tokens as a heat map, and how full the memories are over time."""
    betas = torch.cat([layer.double() for layer in reading.strengths])
    heat = image(betas, CHANGE, -1, 1, "write strength β of every token, by layer and head", "fw-betas")
    names = ", ".join(reading.layers)
    ranks = [
        Line(o.layer, o.ranks, f"fw-line-{n % 4}", LINES[(n + n // 4) % 4]) for n, o in enumerate(reading.occupancy)
    ]
    sizes = [
        Line(o.layer, o.sizes, f"fw-line-{n % 4}", LINES[(n + n // 4) % 4]) for n, o in enumerate(reading.occupancy)
    ]
    last = "".join(
        f"<li>{escape(o.layer)}: effective rank {number(o.ranks[-1][1], f'rank-{n}', 3)}, "
        f"size |W| {number(o.sizes[-1][1], f'size-{n}', 3)}</li>"
        for n, o in enumerate(reading.occupancy)
    )
    return (
        f"<figure>{heat}<figcaption>Write strength β: a column for every token, a row for every head, from 0 (white) "
        f"to 1 (dark); from top to bottom {escape(names)}</figcaption></figure>"
        '<div class="fw-charts">'
        + lines(ranks, "writes", "effective rank", "Directions that every memory uses, by the number of writes")
        + lines(sizes, "writes", "size |W|", "Size of every memory, by the number of writes")
        + f"</div><p><b>At the end</b></p><ul>{last}</ul>"
    )


def shown(symbol: str) -> str:
    """A token that can be seen, even if it is a space."""
    return symbol.replace("\n", "⏎") if symbol.strip(" ") else "␣" * max(len(symbol), 1)
