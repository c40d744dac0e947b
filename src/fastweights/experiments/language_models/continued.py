"""Going on with the weights of another run: with more steps, another text or another learning rate."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastweights.data.text.corpus import open_corpus, open_if_it_is
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.experiments.language_models.task import LanguageModelTask, Start
from fastweights.experiments.load import read_run
from fastweights.experiments.options import DataOptions, refuse_languages
from fastweights.runs.display import Display
from fastweights.training.run import Run
from fastweights.training.task import Task
from fastweights.training.tensors import digest_of_weights


def continue_from(path: Path, options: DataOptions) -> tuple[Run, Callable[[Run], Task[Any]]]:
    """The run in a folder, from the weights of its best checkpoint on, and what makes its task.

    Optimiser, schedule and steps begin anew. Another text is read in the vocabulary of the weights.
    """
    if options.tokens is not None or options.vocabulary_size is not None:
        raise ValueError("tokens and vocabulary_size: a run that continues another keeps its vocabulary")
    _, task, checkpoint = load_language_model(path)
    vocabulary, display = vocabulary_of(path), Display.on_terminal()
    refuse_languages(options)
    place, tokenizer = options.cache, vocabulary.tokenizer
    with display.shown():
        reads = display.reads(f"{options.data}: reading the text")
        corpus = open_if_it_is(task.text, options.data, vocabulary, place, reads)
        if corpus is None:
            corpus = open_corpus(options.data, tokenizer, place, reads, vocabulary=vocabulary)
    weights = dict(checkpoint.model)
    start = Start(weights, str(path.resolve()), checkpoint.step)

    def make_task(run: Run) -> Task[Any]:
        assert isinstance(run.task, LanguageModellingConfig)
        return LanguageModelTask(run.task, run.training, corpus, options.data, start)

    begins = replace(task, text=corpus.digest, start=digest_of_weights(weights))
    return replace(read_run(path), task=begins), make_task
