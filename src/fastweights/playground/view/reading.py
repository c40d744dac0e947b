"""The tab about a language model: its text token by token, β by layer and head, erasures, and how full memories are."""

from html import escape

import torch

from fastweights.data.text.tokenizers import UNKNOWN
from fastweights.experiments.demo.memory import CHANGE
from fastweights.playground.reading import TextReading
from fastweights.playground.view.charts import LINES, Line, lines
from fastweights.playground.view.images import image
from fastweights.playground.view.text import decimals, number, scrolling, share

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
            f'tabindex="{0 if place == chosen else -1}" '
            f'data-value="{"" if surprise is None else repr(surprise)}" style="--fw-shade:{shade:.3f}" '
            f'aria-label="{escape(shown(symbol), quote=True)}{spoken}" title="position {place}{spoken}">'
            f"{escape(shown(symbol))}</button>"
        )
    scored = [surprise for surprise in reading.surprises if surprise is not None]
    mean = number(sum(scored) / len(scored), "mean-surprise")
    unknown = reading.symbols.count(UNKNOWN)
    strange = f" Unknown to the model ({escape(UNKNOWN)}): {unknown}." if unknown else ""
    return (
        f'<p class="fw-lead">{len(reading.tokens)} tokens, mean surprise −log p {mean} nats.{strange} Choose a token '
        "to see how strongly it was written and what it overwrote.</p>"
        f'<p class="fw-scale"><span>surprise 0</span><i></i><span>{STRONGEST_SHADE:g} or more</span></p>'
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
            f'<td class="fw-plus" style="--fw-shade:{min(max(beta, 0.0), 1.0):.3f}">'
            f"{decimals(beta, f'beta-{place}-{head}')}</td>"
            for head, beta in enumerate(betas[:, chosen].tolist())
        )
        + "</tr>"
        for place, (layer, betas) in enumerate(zip(reading.layers, reading.strengths, strict=True))
    )
    erased = "".join(
        f"<li>{share(erasure.share, f'erased-{place}')} of what "
        f"<b>{escape(shown(reading.symbols[erasure.earlier]))}</b> "
        f"(position {erasure.earlier}) had written, in {escape(erasure.layer)}, head {erasure.head}</li>"
        for place, erasure in enumerate(reading.erasures[chosen])
    )
    return (
        f"<h3>{escape(shown(reading.symbols[chosen]))} <small>position {chosen}, surprise "
        f"{number(surprise, 'surprise')} nats</small></h3>"
        "<h4>Write strength β by layer and head</h4>"
        + scrolling("Write strengths of this token", f"<thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody>")
        + f"<h4>What it overwrote</h4>{f'<ol>{erased}</ol>' if erased else '<p>Nothing of any token before it.</p>'}"
    )


def memory_view(reading: TextReading) -> str:
    """β of all tokens as a heat map, and how full the memories are over time."""
    betas = torch.cat([layer.double() for layer in reading.strengths])
    heat = image(betas, CHANGE, -1, 1, "write strength β of every token, by layer and head", "fw-betas")
    layers = "".join(
        f'<span style="flex:{len(layer)}">{escape(name)}</span>'
        for name, layer in zip(reading.layers, reading.strengths, strict=True)
    )
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
        "<h3>All tokens</h3>"
        f'<figure><div class="fw-map"><div class="fw-layers" aria-hidden="true">{layers}</div>{heat}</div>'
        "<figcaption>Write strength β: a column for every token, a row for every head of every layer, from 0 (white) "
        "to 1 (dark)</figcaption></figure>"
        '<div class="fw-charts">'
        + lines(ranks, "writes", "effective rank", "Directions that every memory uses, by the number of writes")
        + lines(sizes, "writes", "size |W|", "Size of every memory, by the number of writes")
        + f"</div><h4>At the end</h4><ul>{last}</ul>"
    )


def shown(symbol: str) -> str:
    """A token that can be seen, even if it is a space."""
    return symbol.replace("\n", "⏎") if symbol.strip(" ") else "␣" * max(len(symbol), 1)
