"""The tab where one writes into memories by hand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gradio as gr

from fastweights.playground import session_file
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.keys import COLOURS
from fastweights.playground.page.events import answer
from fastweights.playground.page.memory_columns import MemoryColumns, names_of
from fastweights.playground.pictures import NAMED, PLACES, drawn, named, places_of
from fastweights.playground.session import FEWEST_MEMORIES, MOST_MEMORIES, Session, Write
from fastweights.playground.view.images import picture_legend
from fastweights.playground.view.memories import NUMBERS, history_view, memory_views, save_link

START = Session()
FIRST = "heart"
"""The picture that is there to be written."""
HELP = """Write pictures under keys, overwrite one, and read them again. A key that was written twice shows the rules
apart: the **sum** rule retrieves both pictures on top of each other, the **delta** rule the last one. Make the keys
similar, and what is written under one of them leaks into the others."""


def write_tab() -> None:
    """Build the tab inside the page that is being built."""
    session = gr.State(START)
    gr.Markdown(HELP)
    message = gr.HTML("", elem_classes="fw-message")
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            given, time = _to_write(message), _Time()
        with gr.Column(scale=5, min_width=300):
            with gr.Row():
                read = gr.Radio(
                    list(COLOURS), value="red", label="Key to read with", elem_id="fw-read-key", scale=4, min_width=300
                )
                counts = [str(n) for n in range(FEWEST_MEMORIES, MOST_MEMORIES + 1)]
                count = gr.Radio(counts, value="2", label="Memories side by side", elem_id="fw-count", min_width=220)
            gr.HTML(picture_legend())
            memories = MemoryColumns(START, "red")
            gr.HTML(NUMBERS)
    gr.Markdown("### History")
    history = gr.HTML(history_view(START), elem_id="fw-history")
    with gr.Row(elem_id="fw-files"):
        save = gr.HTML(save_link(START))
        upload = gr.UploadButton("Restore a session from a file", file_types=[".json"], type="binary", size="sm")

    shown = [session, *memories.views, history, save, time.back, time.forward, time.now]
    settings = [count, given.similarity, *memories.choosers]

    def show(changed: Session, read_key: str) -> tuple[Any, ...]:
        views = memory_views(changed, read_key)
        return changed, *views, history_view(changed), save_link(changed), *time.at(changed)

    def on(event: Callable[..., Any], change: Callable[..., Session], more: Sequence[Any] = ()) -> None:
        """Change the session; every event carries all settings, so that none can be overtaken by another."""

        def changed(before: Session, read_key: str, wanted: str, close: float, *rest: Any) -> Any:
            names = rest[: len(memories.choosers)]
            chosen = tuple(MemoryChoice(*names[3 * n : 3 * n + 3]) for n in range(int(wanted)))
            now = replace(before, memories=chosen, similarity=close)
            return show(change(now, *rest[len(memories.choosers) :]), read_key)

        answer(event, changed, [session, read, *settings, *more], shown, message)

    def restore(read_key: str, content: bytes | None) -> tuple[Any, ...]:
        found = session_file.from_bytes(content or b"")
        length = len(found.memories)
        return (*show(found, read_key), str(length), found.similarity, *names_of(found.memories), *_visible(length))

    on(given.write.click, lambda before, *write: before.write(_write(*write)), given.what)
    on(time.back.click, Session.back)
    on(time.forward.click, Session.forward)
    on(time.now.input, lambda before, step: before.at(int(step)), [time.now])
    for control in settings:
        on(control.input, lambda before: before)
    answer(read.input, lambda *now: tuple(memory_views(*now)), [session, read], memories.views, message)
    answer(count.change, lambda wanted: tuple(_visible(int(wanted))), [count], memories.columns, message)
    answer(upload.upload, restore, [read, upload], [*shown, *settings, *memories.columns], message)


class _Time:
    """Where in the history we are: two buttons and a slider."""

    def __init__(self) -> None:
        with gr.Row():
            self.back = gr.Button("◀ Undo", elem_id="fw-back", min_width=80, interactive=False)
            self.forward = gr.Button("Redo ▶", elem_id="fw-forward", min_width=80, interactive=False)
        self.now = gr.Slider(0, 1, 0, step=1, label="Time: writes so far", elem_id="fw-now")

    def at(self, session: Session) -> tuple[Any, ...]:
        """The same at another time."""
        length = len(session.writes)
        return (
            gr.Button(interactive=session.now > 0),
            gr.Button(interactive=session.now < length),
            gr.Slider(maximum=max(length, 1), value=session.now),
        )


@dataclass(frozen=True)
class _ToWrite:
    """The controls that say what is written."""

    what: tuple[Any, ...]
    """Key, pixels, strength and decay."""
    similarity: gr.Slider
    write: gr.Button


def _to_write(message: gr.HTML) -> _ToWrite:
    picture = gr.Dropdown(list(NAMED), value=FIRST, label="Picture or digit to take", elem_id="fw-picture")
    pixels = gr.CheckboxGroup(
        list(PLACES), value=places_of(named(FIRST)), label="What is written; draw on it", elem_id="fw-draw"
    )
    gr.HTML("", js_on_load=Path(__file__).with_name("draw.js").read_text(encoding="utf-8"), visible="hidden")
    clear = gr.Button("Clear the picture", size="sm", elem_id="fw-clear")
    key = gr.Radio(list(COLOURS), value="red", label="Key to write under", elem_id="fw-key")
    similarity = gr.Slider(
        0, 1, 0, step=0.01, label="Similarity of the keys: 0 orthogonal, 1 equal", elem_id="fw-similarity"
    )
    strength = gr.Slider(0, 1, 1, step=0.01, label="Write strength β", elem_id="fw-strength")
    decay = gr.Slider(0, 1, 1, step=0.01, label="Decay: what the memory keeps at a write", elem_id="fw-decay")
    write = gr.Button("Write", variant="primary", elem_id="fw-write")
    answer(picture.input, lambda name: places_of(named(name)), [picture], [pixels], message)
    answer(clear.click, lambda: (None, []), [], [picture, pixels], message)
    return _ToWrite((key, pixels, strength, decay), similarity, write)


def _write(key: str, inked: Sequence[str], strength: float, decay: float) -> Write:
    return Write(key, drawn(inked), strength, decay)


def _visible(count: int) -> list[Any]:
    return [gr.Column(visible=place < count) for place in range(MOST_MEMORIES)]
