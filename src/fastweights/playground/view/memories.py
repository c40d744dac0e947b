"""The memories of a session side by side: what every key retrieves, W, what changed in it, and its numbers."""

import base64
from html import escape

from fastweights.playground.choices import MemoryChoice
from fastweights.playground.keys import COLOURS
from fastweights.playground.outcome import MemoryNow, outcome
from fastweights.playground.pictures import name_of
from fastweights.playground.session import MOST_MEMORIES, Session
from fastweights.playground.session_file import to_bytes
from fastweights.playground.view.charts import bars
from fastweights.playground.view.images import matrix_image, picture_image
from fastweights.playground.view.text import ERROR, dot, number, problem, share
from fastweights.update_rules import Decay

NUMBERS = """<details class="fw-help"><summary>What the numbers mean</summary><dl>
<dt>Landing λ</dt><dd>How far the last write has moved what its key retrieves towards what it should retrieve: 1 is all
of the way, 0 nothing. A dash where there was nothing to move.</dd>
<dt>Balance B</dt><dd>Weight that the last write removed, over weight that it added: 1 is even. A dash where features of
the keys are negative, because their sum is no amount of weight, and for rules that are not linear in W.</dd>
<dt>Effective rank of W</dt><dd>How many directions the memory uses, by the spread of its singular values.</dd>
<dt>Cosine of mapped keys</dt><dd>Mean over all pairs of keys, after feature map and normalisation: at 0 no write
disturbs what another key retrieves.</dd></dl></details>"""


def memory_views(session: Session, read: str) -> list[str]:
    """Every memory after the writes up to now, and nothing in the places that are free; `read` is shown large."""
    shown = [_memory(session, place, choice, read) for place, choice in enumerate(session.memories)]
    return shown + [""] * (MOST_MEMORIES - len(shown))


def history_view(session: Session) -> str:
    """Every write, those that were undone too."""
    rows = "".join(
        f"<li{' aria-current=step' if place == session.now else ''}{' class=fw-undone' if place > session.now else ''}>"
        f"{dot(write.key)}{write.key} ← {escape(name_of(write.picture))}"
        f"<small> β {write.strength:g}, decay {write.decay:g}</small></li>"
        for place, write in enumerate(session.writes, start=1)
    )
    return f"<ol class='fw-history'>{rows}</ol>" if rows else "<p>Nothing has been written yet.</p>"


def save_link(session: Session) -> str:
    """A link that holds the whole session as a file."""
    content = base64.b64encode(to_bytes(session)).decode("ascii")
    return (
        '<a class="fw-save" download="memory-session.json" '
        f'href="data:application/json;base64,{content}">Save this session as a file</a>'
    )


def _memory(session: Session, place: int, choice: MemoryChoice, read: str) -> str:
    name = f'aria-label="Memory {place + 1}: {escape(choice.name)}"'
    try:
        found = outcome(session, choice)
    except ValueError as error:
        return f'<section class="fw-memory" {name}>{problem(str(error))}</section>'
    body = _large(session, found, read) + _keys(session, found, read) + _matrices(found) + _numbers(choice, found)
    return f'<section class="fw-memory" data-memory="{place}" {name}>{body}</section>'


def _large(session: Session, found: MemoryNow, read: str) -> str:
    """What the chosen key retrieves, in words and as a large picture."""
    stored = session.stored().get(read)
    if stored is None:
        words = "; nothing was written under it."
    elif read in found.errors:
        error = share(found.errors[read], "read-error")
        what = escape(name_of(stored)).removeprefix("a ")
        words = f". Error against the {what} that was written last: {error}."
    else:
        words = ". An empty picture was written last."
    picture = picture_image(found.reads[read], f"what {read} retrieves")
    return f'<div class="fw-read">{picture}<p>{dot(read)}<b>{read}</b> retrieves this{words}</p></div>'


def _keys(session: Session, found: MemoryNow, read: str) -> str:
    stored, cells = session.stored(), []
    for key in COLOURS:
        error = share(found.errors[key], f"error-{key}") if key in found.errors else "–"
        of = f", where {name_of(stored[key])} was written" if key in stored else ""
        picture = picture_image(found.reads[key], f"{key} retrieves{of}")
        chosen = ' class="fw-chosen"' if key == read else ""
        cells.append(f"<figure{chosen}>{picture}<figcaption>{dot(key)}{key}<br>{error}</figcaption></figure>")
    return (
        f'<p class="fw-note">What every key retrieves, with its error {ERROR}</p>'
        f'<div class="fw-keys">{"".join(cells)}</div>'
    )


def _matrices(found: MemoryNow) -> str:
    values, features = found.weights.shape
    size, change = float(found.weights.abs().max()), float(found.change.abs().max())
    return (
        '<div class="fw-matrices">'
        f"<figure>{matrix_image(found.weights, 'the fast weights W as a heat map')}"
        f"<figcaption>W, {values} × {features}: blue is positive, orange negative, up to "
        f"{number(size, 'largest-weight', 3)}</figcaption></figure>"
        f"<figure>{matrix_image(found.change, 'what the last write changed in W')}"
        f"<figcaption>What the last write changed in W, up to {number(change, 'largest-change', 3)}</figcaption>"
        "</figure></div>"
    )


def _numbers(choice: MemoryChoice, found: MemoryNow) -> str:
    gates = choice.update_rule.gates
    notes = [] if any(not isinstance(gate, Decay) for gate in gates) else ["no β"]
    notes += [] if any(isinstance(gate, Decay) for gate in gates) else ["no decay"]
    spectrum = ""
    if found.singular_values:
        first = number(found.singular_values[0], "singular-value-0", 3)
        chart = bars(found.singular_values, f"{len(found.singular_values)} singular values of W, largest first")
        caption = f"<figcaption>Singular values of W, the largest {first}</figcaption>"
        spectrum = f'<figure class="fw-spectrum">{chart}{caption}</figure>'
    rows = (
        ("Landing λ (last write)", number(found.landing, "landing")),
        ("Balance B (last write)", number(found.balance, "balance")),
        ("Effective rank of W", number(found.effective_rank, "effective-rank", 3)),
        ("Cosine of mapped keys", number(found.crosstalk, "crosstalk", 3)),
    )
    listed = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in rows)
    note = f'<p class="fw-note">This rule has {" and ".join(notes)}.</p>' if notes else ""
    return f"{spectrum}<dl>{listed}</dl>{note}"
