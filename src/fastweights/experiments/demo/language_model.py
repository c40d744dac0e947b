"""A tiny language model whose memory does not grow, trained on text that comes with Python: the end of the demo."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from fastweights.data.text.corpus import Corpus, open_corpus
from fastweights.data.text.tokenizers import Words
from fastweights.evaluation.prompt import printable, prompt_tokens
from fastweights.evaluation.sampling import Sampling, generate
from fastweights.experiments.families import codec
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.perplexities import Perplexity, shown
from fastweights.experiments.language_models.presets import PRESETS, for_corpus
from fastweights.experiments.language_models.task import LanguageModelTask
from fastweights.experiments.load import load_run
from fastweights.files import read_json, write_whole
from fastweights.layers import FastWeightAttention
from fastweights.models.language_model import LanguageModel
from fastweights.reporting import Section, Table
from fastweights.runs.display import Display
from fastweights.runs.signals import end_process
from fastweights.training.execute import Execution
from fastweights.training.run import Run

CORPUS_FILE = "python-topics.txt"
STEPS = 600
PROMPT = "the value of"
LENGTH = 60
"""Words that the trained model writes."""
READ_BEFORE = 1000
"""Words of the validation text that it reads first: in training its memory is hardly ever empty."""
SAMPLING = Sampling(temperature=0.8, seed=1)


@dataclass(frozen=True)
class Written:
    """The size of the model, its perplexity, and the text it wrote."""

    parameters: int
    memory: int
    """Numbers that its memory holds, after however many words."""
    perplexity: float
    """The best validation; what it writes comes from the end of its training, when it knows its text better."""
    seconds: float
    text: str


def run(folder: Path) -> Written:
    """Train the model, or take it from the folder if it was trained there, and let it write."""
    corpus = topics(folder)
    path = folder / "language-model"
    run = tiny_run(corpus)
    assert isinstance(run.task, LanguageModellingConfig)
    task = LanguageModelTask(run.task, run.training, corpus, str(folder / CORPUS_FILE))
    display = Display.on_terminal().shows(task.unit, task.shown)
    with display.shown():
        _, ending = Execution(codec(), display=display).record(run, task, path, measured=False)
    if ending is not None and not ending.finished:
        end_process(ending.signal)
    result = read_json(path / "result.json")
    model, _, _ = load_run(path, "newest")
    assert isinstance(model, LanguageModel)
    print(PROMPT, end=" ", flush=True)
    pieces = []
    before = [*corpus.valid[:READ_BEFORE].tolist(), *prompt_tokens(corpus.vocabulary, PROMPT)]
    new = islice(generate(model, before, SAMPLING), LENGTH)
    for piece in map(printable, corpus.vocabulary.decode(new)):
        print(piece, end="", flush=True)
        pieces.append(piece)
    print()
    memory = sum(
        layer.initial_state(1).weights.numel() for layer in model.modules() if isinstance(layer, FastWeightAttention)
    )
    valid = Perplexity.of_losses(result["best_loss"], None).valid
    return Written(result["parameters"], memory, valid, result["seconds"], f"{PROMPT} {''.join(pieces)}")


def topics(folder: Path) -> Corpus:
    """The sentences of the help texts about Python's language, which every installation has, as a corpus of words."""
    from pydoc_data.topics import topics as texts

    path = folder / CORPUS_FILE
    write_whole(path, "".join(f"{line}\n" for name in sorted(texts) for line in sentences(texts[name])))
    return open_corpus(path, Words(), folder / "cache")


def sentences(text: str) -> Iterator[str]:
    """Paragraphs of plain English, a line each, in small letters with spaces around punctuation."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.split("\n")
        # What is indented is code or grammar; the rest that is short or has no full stop is headings and lists.
        if (
            len(paragraph) > 80
            and paragraph.endswith(".")
            and not any(line.startswith((" ", "*", "|")) for line in lines)
        ):
            words = re.sub(r"[\"“”]", " ", " ".join(lines).lower())
            yield " ".join(re.sub(r"([.,;:()?!])", r" \1 ", words).split())


def tiny_run(corpus: Corpus) -> Run:
    """DPFP and the delta rule with a carried memory, small enough for half a minute on two cores."""
    run = for_corpus(PRESETS["cpu-dpfp-delta-nopos-carried"], corpus)
    assert isinstance(run.task, LanguageModellingConfig)
    model = replace(run.task.model, num_layers=2, feed_forward_dim=256, cutoffs=(), pre_norm=True)
    training = replace(
        run.training,
        steps=STEPS,
        batch_size=8,
        learning_rate=3e-3,
        warmup_steps=20,
        clip_norm=1.0,
        evaluate_every=STEPS // 4,
    )
    return replace(run, task=replace(run.task, model=model, segment_length=64), training=training)


def section(written: Written) -> Section:
    """The section of the report."""
    text = (
        "A Transformer with two layers of such memories read the help texts that come with Python, word by word, "
        "and then wrote on by itself. Its memory goes on from each segment to the next and never grows."
    )
    heads = ("parameters", "numbers in its memory", "best perplexity per word, unseen text", "seconds of training")
    cells = (f"{written.parameters:,}", f"{written.memory:,}", shown(written.perplexity), f"{written.seconds:.0f}")
    rows = ((*cells, written.text),)
    table = Table("language-model", "Trained by the demo.", (*heads, "wrote"), rows, wide=True)
    return Section("A language model whose memory does not grow", (text,), tables=(table,))
