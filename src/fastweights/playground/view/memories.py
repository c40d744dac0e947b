"""The memories of a session side by side: what every key retrieves, W, what changed in it, and its numbers."""

import base64
from html import escape

from fastweights.playground.choices import MemoryChoice
from fastweights.playground.keys import COLOURS
from fastweights.playground.outcome import MemoryNow, outcome
from fastweights.playground.pictures import name_of
from fastweights.playground.session import Session
from fastweights.playground.session_file import to_bytes
from fastweights.playground.view.charts import bars
from fastweights.playground.view.images import matrix_image, picture_image
from fastweights.playground.view.text import dot, number, problem, share
from fastweights.update_rules import Decay


def memories_view(session: Session, read: str) -> str:
    """All memories after the writes up to now; `read` is the key that is shown large."""
    shown = "".join(_memory(session, number_of, choice, read) for number_of, choice in enumerate(session.memories))
    return f'<div class="fw-memories fw-count-{len(session.memories)}">{shown}</div>'


def history_view(session: Session) -> str:
    """Every write, those that were undone too, and a link that saves it all."""
    rows = "".join(
        f"<li{' aria-current=step' if place == session.now else ''}{' class=fw-undone' if place > session.now else ''}>"
        f"{dot(write.key)}{write.key} ← {escape(name_of(write.picture))}"
        f"<small> β {write.strength:g}, decay {write.decay:g}</small></li>"
        for place, write in enumerate(session.writes, start=1)
    )
    content = base64.b64encode(to_bytes(session)).decode("ascii")
    written = f"<ol class='fw-history'>{rows}</ol>" if rows else "<p>Nothing has been written yet.</p>"
    return (
        f'{written}<p><a class="fw-save" download="memory-session.json" '
        f'href="data:application/json;base64,{content}">Save this session as a file</a></p>'
    )


def _memory(session: Session, place: int, choice: MemoryChoice, read: str) -> str:
    title = f'<h3 id="fw-memory-{place}">{escape(choice.name)}</h3>'
    try:
        found = outcome(session, choice)
    except ValueError as error:
        return f'<section class="fw-memory" aria-labelledby="fw-memory-{place}">{title}{problem(str(error))}</section>'
    body = _large(session, found, read) + _keys(session, found, read) + _matrices(found) + _numbers(choice, found)
    return (
        f'<section class="fw-memory" data-memory="{place}" aria-labelledby="fw-memory-{place}">{title}{body}</section>'
    )


def _large(session: Session, found: MemoryNow, read: str) -> str:
    """What the chosen key retrieves, in words and as a large picture."""
    stored = session.stored().get(read)
    if stored is None:
        words = "nothing was written under it"
    elif read in found.errors:
        words = f"{share(found.errors[read], 'read-error')} off the {escape(name_of(stored))} that was written last"
    else:
        words = "an empty picture was written last"
    picture = picture_image(found.reads[read], f"what {read} retrieves")
    return f'<div class="fw-read">{picture}<p>{dot(read)}<b>{read}</b> retrieves this: {words}.</p></div>'


def _keys(session: Session, found: MemoryNow, read: str) -> str:
    stored, cells = session.stored(), []
    for key in COLOURS:
        off = share(found.errors[key], f"error-{key}") + " off" if key in found.errors else "–"
        of = f", where {name_of(stored[key])} was written" if key in stored else ""
        picture = picture_image(found.reads[key], f"{key} retrieves{of}")
        chosen = ' class="fw-chosen"' if key == read else ""
        cells.append(f"<figure{chosen}>{picture}<figcaption>{dot(key)}{key}<br>{off}</figcaption></figure>")
    return f'<div class="fw-keys">{"".join(cells)}</div>'


def _matrices(found: MemoryNow) -> str:
    values, features = found.weights.shape
    size, change = float(found.weights.abs().max()), float(found.change.abs().max())
    return (
        '<div class="fw-matrices">'
        f"<figure>{matrix_image(found.weights, 'the fast weights W as a heat map')}"
        f"<figcaption>W, {values} × {features}, up to {number(size, 'largest-weight', 3)}</figcaption></figure>"
        f"<figure>{matrix_image(found.change, 'what the last write changed in W')}"
        f"<figcaption>what the last write changed, up to {number(change, 'largest-change', 3)}</figcaption></figure>"
        "</div>"
    )


def _numbers(choice: MemoryChoice, found: MemoryNow) -> str:
    gates = choice.update_rule.gates
    notes = [] if any(not isinstance(gate, Decay) for gate in gates) else ["no β"]
    notes += [] if any(isinstance(gate, Decay) for gate in gates) else ["no decay"]
    spectrum = ""
    if found.singular_values:
        first = number(found.singular_values[0], "singular-value-0", 3)
        chart = bars(found.singular_values, f"{len(found.singular_values)} singular values of W, largest first")
        spectrum = (
            f'<figure class="fw-spectrum">{chart}<figcaption>singular values, the largest {first}</figcaption></figure>'
        )
    rows = (
        ("landing λ of the last write", number(found.landing, "landing")),
        ("balance B of the last write", number(found.balance, "balance")),
        ("directions in use (effective rank)", number(found.effective_rank, "effective-rank", 3)),
        ("cosine of keys after the map", number(found.crosstalk, "crosstalk", 3)),
    )
    listed = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in rows)
    note = f'<p class="fw-note">This rule has {" and ".join(notes)}.</p>' if notes else ""
    return f"{spectrum}<dl>{listed}</dl>{note}"
