"""The tab where one fills memories until they fail."""

from typing import Any

import gradio as gr

from fastweights.playground.capacity import most
from fastweights.playground.choices import NORMALISED, PLAYED_MAPS, PLAYED_RULES, MemoryChoice
from fastweights.playground.page.events import answer
from fastweights.playground.view.capacity import capacity_view

START = (MemoryChoice("sum", "dpfp-1", "l2"), MemoryChoice("delta", "dpfp-1", "l2"))
HELP = """Random keys of 8 components are mapped to *d_dot* features, and a picture is written under each. Slide the
number of pictures through *d_dot*: no memory with so many features can hold more associations without error (the rank
bound), and most fail earlier, because random keys are not orthogonal."""


def capacity_tab() -> None:
    """Build the tab inside the page that is being built."""
    gr.Markdown(HELP)
    message = gr.HTML("", elem_classes="fw-message")
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            count = gr.Slider(1, most(START[0]), 8, step=1, label="Pictures stored, S", elem_id="fw-stored")
            feature_map = gr.Dropdown(list(PLAYED_MAPS), value="dpfp-1", label="Feature map", elem_id="fw-capacity-map")
            strength = gr.Slider(0, 1, 1, step=0.05, label="Write strength β", elem_id="fw-capacity-strength")
            chosen = [
                chooser
                for place, choice in enumerate(START)
                for chooser in (
                    gr.Dropdown(list(PLAYED_RULES), value=choice.rule, label=f"Rule of memory {place + 1}"),
                    gr.Dropdown(
                        list(NORMALISED), value=choice.normalisation, label=f"Normalisation of memory {place + 1}"
                    ),
                )
            ]
        with gr.Column(scale=5, min_width=300):
            view = gr.HTML(capacity_view(START, 8, 1.0), elem_id="fw-capacity")

    def show(stored: float, name: str, beta: float, *names: str) -> str:
        pairs = zip(names[::2], names[1::2], strict=True)
        return capacity_view(tuple(MemoryChoice(rule, name, divided) for rule, divided in pairs), int(stored), beta)

    def another_map(stored: float, name: str, beta: float, *names: str) -> Any:
        last = most(MemoryChoice(feature_map=name))
        now = min(int(stored), last)
        return gr.Slider(maximum=last, value=now), show(now, name, beta, *names)

    inputs = [count, feature_map, strength, *chosen]
    for control in (count, strength, *chosen):
        answer(control.input, show, inputs, [view], message)
    answer(feature_map.input, another_map, inputs, [count, view], message)
