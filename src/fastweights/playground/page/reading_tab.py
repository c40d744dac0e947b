"""The tab where one looks into a language model."""

from typing import Any

import gradio as gr

from fastweights.evaluation.sampling import Sampling
from fastweights.playground.page.events import answer
from fastweights.playground.reading import MOST_CHARACTERS, MOST_GENERATED, TextReading, continue_text, read_text
from fastweights.playground.runs import Runs
from fastweights.playground.view.reading import memory_view, token_view, tokens_view

NONE_GIVEN = """No language model was given. Train one, for instance with
`fastweights train --preset cpu-linear-delta --data TEXT --out runs/mine`, and start the page with
`fastweights play runs/mine`."""
NOTHING_READ = """<p class="fw-empty">Paste a text and press Read: every token with its surprise, how strongly it was
written, what it overwrote, and how full the memories become.</p>"""
CHOOSE = """const tokens = () => [...element.querySelectorAll('[data-token]')];
const onlyStop = token => tokens().forEach(other => { other.tabIndex = other === token ? 0 : -1; });
element.addEventListener('click', event => {
  const token = event.target.closest('[data-token]');
  if (!token) return;
  tokens().forEach(other => other.setAttribute('aria-pressed', String(other === token)));
  onlyStop(token);
  trigger('click', {place: Number(token.dataset.token)});
});
element.addEventListener('keydown', event => {
  const all = tokens(), place = all.indexOf(event.target);
  const next = {ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: all.length - 1}[event.key];
  if (place < 0 || !all[next]) return;
  event.preventDefault();
  onlyStop(all[next]);
  all[next].focus();
});"""
"""A token of the text that is clicked, or pressed with the keyboard, becomes an event of the page. All tokens are one
stop of the Tab key; arrow keys go from one to the next."""


def reading_tab(runs: Runs) -> None:
    """Build the tab inside the page that is being built."""
    if not runs.language_models:
        gr.Markdown(NONE_GIVEN)
        return
    reading = gr.State(None)
    message = gr.HTML("", elem_classes="fw-message")
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            names = list(runs.language_models)
            run = gr.Dropdown(names, value=names[0], label="Language model", elem_id="fw-model")
            text = gr.Textbox(lines=8, max_length=MOST_CHARACTERS, label="Text to read", elem_id="fw-text")
            read = gr.Button("Read", variant="primary", elem_id="fw-read-text")
            length = gr.Slider(1, MOST_GENERATED, 40, step=1, label="Tokens to write")
            temperature = gr.Slider(0, 2, 0.8, step=0.05, label="Temperature: 0 takes the likeliest word")
            go_on = gr.Button("Write on from there", elem_id="fw-go-on")
            written = gr.Textbox(label="What the model writes on", lines=4, interactive=False, elem_id="fw-written")
        with gr.Column(scale=5, min_width=300):
            tokens = gr.HTML(NOTHING_READ, js_on_load=CHOOSE, elem_id="fw-tokens")
            token = gr.HTML("", elem_id="fw-token")
            memory = gr.HTML("", elem_id="fw-memory-view")

    def do_read(name: str, given: str) -> Any:
        found = read_text(*runs.language_model(name), given)
        chosen = len(found.tokens) - 1
        return found, tokens_view(found, chosen), token_view(found, chosen), memory_view(found), ""

    def choose(found: TextReading | None, event: gr.EventData) -> Any:
        place = getattr(event, "place", None)
        if found is None or not isinstance(place, int):
            raise ValueError("token: choose one of the text")
        return token_view(found, place)

    def write_on(name: str, found: TextReading | None, count: float, heat: float) -> str:
        if found is None:
            raise ValueError("text: let the model read one first")
        return continue_text(*runs.language_model(name), found, int(count), Sampling(temperature=heat))

    answer(read.click, do_read, [run, text], [reading, tokens, token, memory, written], message, progress=True)
    answer(tokens.click, choose, [reading], [token], message)
    answer(go_on.click, write_on, [run, reading, length, temperature], [written], message, progress=True)
