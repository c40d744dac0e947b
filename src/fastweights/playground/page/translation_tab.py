"""The tab where one translates a sentence."""

import gradio as gr

from fastweights.playground.page.events import answer
from fastweights.playground.runs import Runs
from fastweights.playground.translating import MOST_BEAMS, MOST_CHARACTERS, translate_sentence
from fastweights.playground.view.translation import translation_view

NOTHING_TRANSLATED = """<p class="fw-empty">Write a sentence and press Translate: the best translations that the
search finds, and from which source words every word of the first one takes.</p>"""


def translation_tab(runs: Runs) -> None:
    """Build the tab inside the page that is being built."""
    gr.Markdown(
        "The encoder writes every source word into a memory; the decoder reads it once for every word that it writes."
    )
    message = gr.HTML("", elem_classes="fw-message")
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            names = list(runs.translators)
            run = gr.Dropdown(names, value=names[0], label="Translator", elem_id="fw-translator")
            sentence = gr.Textbox(lines=3, max_length=MOST_CHARACTERS, label="Sentence", elem_id="fw-sentence")
            beams = gr.Slider(1, MOST_BEAMS, 4, step=1, label="Beams", elem_id="fw-beams")
            go = gr.Button("Translate", variant="primary", elem_id="fw-translate")
        with gr.Column(scale=5, min_width=300):
            view = gr.HTML(NOTHING_TRANSLATED, elem_id="fw-translation")

    def translate(name: str, given: str, count: float) -> str:
        return translation_view(translate_sentence(*runs.translator(name), given, int(count)))

    answer(go.click, translate, [run, sentence, beams], [view], message, progress=True)
