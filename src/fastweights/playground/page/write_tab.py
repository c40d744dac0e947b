"""The tab where one writes into memories by hand."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from fastweights.playground import session_file
from fastweights.playground.choices import NORMALISED, PLAYED_MAPS, PLAYED_RULES, MemoryChoice
from fastweights.playground.keys import COLOURS
from fastweights.playground.page.events import answer
from fastweights.playground.pictures import NAMED, PLACES, drawn, named, places_of
from fastweights.playground.session import FEWEST_MEMORIES, MOST_MEMORIES, Session, Write
from fastweights.playground.view.memories import history_view, memories_view

START = Session()
OFFERED = (
    *START.memories,
    MemoryChoice("delta", "dpfp-1", "sum"),
    MemoryChoice("gated-delta", "dpfp-1", "l2"),
)
"""What the columns hold when they appear."""
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
            picture = gr.Dropdown(list(NAMED), value="heart", label="Picture or digit to take")
            places = places_of(named("heart"))
            pixels = gr.CheckboxGroup(
                list(PLACES), value=places, label="What is written; draw on it", elem_id="fw-draw"
            )
            key = gr.Radio(list(COLOURS), value="red", label="Key to write under", elem_id="fw-key")
            strength = gr.Slider(0, 1, 1, step=0.01, label="Write strength β", elem_id="fw-strength")
            decay = gr.Slider(0, 1, 1, step=0.01, label="Decay: what the memory keeps at a write", elem_id="fw-decay")
            write = gr.Button("Write", variant="primary", elem_id="fw-write")
            with gr.Row():
                back = gr.Button("◀ Undo", elem_id="fw-back", min_width=80)
                forward = gr.Button("Redo ▶", elem_id="fw-forward", min_width=80)
            now = gr.Slider(0, 1, 0, step=1, label="Time: writes so far", elem_id="fw-now")
        with gr.Column(scale=5, min_width=300):
            read = gr.Radio(list(COLOURS), value="red", label="Key to read with", elem_id="fw-read-key")
            similarity = gr.Slider(
                0, 1, 0, step=0.01, label="Similarity of the keys: 0 orthogonal, 1 equal", elem_id="fw-similarity"
            )
            view = gr.HTML(memories_view(START, "red"), elem_id="fw-view")
            count = gr.Radio(
                [str(n) for n in range(FEWEST_MEMORIES, MOST_MEMORIES + 1)],
                value="2",
                label="Memories side by side",
                elem_id="fw-count",
            )
            columns, choosers = _choosers()
            gr.Markdown("**History**")
            history = gr.HTML(history_view(START), elem_id="fw-history")
            upload = gr.UploadButton("Restore a session from a file", file_types=[".json"], type="binary", size="sm")

    shown, settings = [session, view, history, now], [count, similarity, *choosers]

    def show(changed: Session, read_key: str) -> tuple[Any, ...]:
        time = gr.Slider(maximum=max(len(changed.writes), 1), value=changed.now)
        return changed, memories_view(changed, read_key), history_view(changed), time

    def on(event: Callable[..., Any], change: Callable[..., Session], given: Sequence[Any] = ()) -> None:
        """Change the session; every event carries all settings, so that none can be overtaken by another."""

        def changed(before: Session, read_key: str, wanted: str, close: float, *rest: Any) -> Any:
            names = rest[: len(choosers)]
            memories = tuple(MemoryChoice(*names[3 * n : 3 * n + 3]) for n in range(int(wanted)))
            return show(change(replace(before, memories=memories, similarity=close), *rest[len(choosers) :]), read_key)

        answer(event, changed, [session, read, *settings, *given], shown, message)

    def restore(read_key: str, content: bytes | None) -> tuple[Any, ...]:
        found = session_file.from_bytes(content or b"")
        length = len(found.memories)
        names = [name for memory in (*found.memories, *OFFERED[length:]) for name in _names(memory)]
        return (*show(found, read_key), str(length), found.similarity, *names, *_visible(length))

    on(
        write.click,
        lambda before, under, inked, beta, kept: before.write(Write(under, drawn(inked), beta, kept)),
        [key, pixels, strength, decay],
    )
    on(back.click, Session.back)
    on(forward.click, Session.forward)
    on(now.input, lambda before, step: before.at(int(step)), [now])
    for control in settings:
        on(control.input, lambda before: before)
    answer(picture.input, lambda name: places_of(named(name)), [picture], [pixels], message)
    answer(read.input, memories_view, [session, read], [view], message)
    answer(count.change, lambda wanted: tuple(_visible(int(wanted))), [count], columns, message)
    answer(upload.upload, restore, [read, upload], [*shown, *settings, *columns], message)


def _choosers() -> tuple[list[gr.Column], list[gr.Dropdown]]:
    """Rule, map and normalisation of every memory."""
    columns, choosers = [], []
    with gr.Row():
        for place, offered in enumerate(OFFERED):
            with gr.Column(min_width=150, visible=place < len(START.memories)) as column:
                tables: tuple[Iterable[str], ...] = (PLAYED_RULES, PLAYED_MAPS, NORMALISED)
                labels = ("Rule", "Feature map", "Normalisation")
                for label, table, name in zip(labels, tables, _names(offered), strict=True):
                    what = f"{label} of memory {place + 1}"
                    choosers.append(gr.Dropdown(list(table), value=name, label=what, elem_id=f"fw-{label[:4]}-{place}"))
            columns.append(column)
    return columns, choosers


def _names(choice: MemoryChoice) -> tuple[str, str, str]:
    return choice.rule, choice.feature_map, choice.normalisation


def _visible(count: int) -> list[Any]:
    return [gr.Column(visible=place < count) for place in range(MOST_MEMORIES)]
