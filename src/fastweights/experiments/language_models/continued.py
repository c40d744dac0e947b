"""Going on with the weights of another run: with more steps, another text or another learning rate."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastweights.data.text.corpus import digest_of, open_corpus
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.experiments.language_models.task import LanguageModelTask
from fastweights.experiments.load import read_run
from fastweights.experiments.options import DataOptions
from fastweights.runs.checkpoint import Tensors
from fastweights.runs.display import Display
from fastweights.training.run import Run
from fastweights.training.task import Task


def continue_from(path: Path, options: DataOptions) -> tuple[Run, Callable[[Run], Task[Any]]]:
    """The run in a folder, from the weights of its best checkpoint on, and what makes its task.

    Optimiser, schedule and steps begin anew. Another text is read in the vocabulary of the weights.
    """
    if options.tokens is not None or options.vocabulary_size is not None:
        raise ValueError("tokens and vocabulary_size: a run that continues another keeps its vocabulary")
    _, task, checkpoint = load_language_model(path)
    vocabulary, display = vocabulary_of(path), Display.on_terminal()
    same = Path(options.data).exists() and digest_of(options.data, vocabulary.tokenizer) == task.text
    with display.shown():
        corpus = open_corpus(
            options.data,
            vocabulary.tokenizer,
            options.cache,
            display.reads(f"{options.data}: reading the text"),
            vocabulary=None if same else vocabulary,
        )
    weights = dict(checkpoint.model)

    def make_task(run: Run) -> Task[Any]:
        assert isinstance(run.task, LanguageModellingConfig)
        return LanguageModelTask(run.task, run.training, corpus, options.data, weights)

    begins = replace(task, text=corpus.digest, start=digest_of_weights(weights))
    return replace(read_run(path), task=begins), make_task


def digest_of_weights(weights: Tensors) -> str:
    """Changes with any number of any tensor."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:24]
