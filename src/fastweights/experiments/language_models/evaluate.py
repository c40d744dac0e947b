"""Measuring a trained language model on a split of its text, as `fastweights evaluate` does."""

import math
from pathlib import Path

import numpy as np

from fastweights.data.text.cache import TokenArray
from fastweights.data.text.corpus import Corpus, open_corpus
from fastweights.data.text.tokenizers import Vocabulary
from fastweights.evaluation import perplexity
from fastweights.evaluation.perplexity import CarriedState, Context, IndependentSegments, Score, SlidingWindow
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.experiments.load import read_run, source_of
from fastweights.experiments.options import EvaluateOptions
from fastweights.files import Json
from fastweights.runs.display import Display
from fastweights.training.distributed import Processes

ONLY_FOR_TRANSLATORS = ("beam", "length_penalty", "reference")


def evaluate(options: EvaluateOptions, display: Display) -> Json:
    """Measure the perplexity, say it, and return what was measured."""
    options.refuse(ONLY_FOR_TRANSLATORS, "a language model")
    if options.split not in ("valid", "test"):
        raise ValueError(f"split: expected valid or test, got {options.split!r}")
    vocabulary = vocabulary_of(options.run)
    where = options.split if options.text is None else str(options.text)
    display.shows(vocabulary.splitter.unit, lambda loss: {})
    with display.shown():
        if options.text is not None:
            score, step = _score(options, _tokens_of(options.text, vocabulary), display)
        else:
            corpus = open_corpus(options.data or source_of(options.run), vocabulary.splitter, options.cache)
            score, step = score_of(options, corpus, display)
    if not math.isfinite(score.loss):
        raise FloatingPointError(f"{options.run}: the loss on the {where} text is {score.loss}")
    limited = f", first {options.limit} tokens only" if options.limit else ""
    display.say(
        f"{options.run}: {where} perplexity {score.perplexity:.2f} per {vocabulary.splitter.unit} "
        f"({score.tokens} scored; {score.context}{limited}; checkpoint of step {step})"
    )
    return {
        "split": where,
        "context": score.context + limited,
        "step": step,
        "tokens": score.tokens,
        "loss": score.loss,
        "perplexity": score.perplexity,
    }


def score_of(options: EvaluateOptions, corpus: Corpus, display: Display) -> tuple[Score, int]:
    """The score of a run's model on a split, and the step of the checkpoint that was used."""
    task = read_run(options.run).task
    assert isinstance(task, LanguageModellingConfig)
    if task.text != corpus.digest:
        raise ValueError(
            f"{options.run}: trained on another text, or on the same one split in another way; "
            "possible: --text FILE for any other text"
        )
    return _score(options, corpus.split(options.split), display)


def _score(options: EvaluateOptions, tokens: TokenArray, display: Display) -> tuple[Score, int]:
    if options.limit is not None and options.limit < 2:
        raise ValueError(f"limit: expected at least 2 tokens, got {options.limit}")
    model, task, checkpoint = load_language_model(options.run, options.checkpoint)
    device = Processes.device_named(options.device)
    context, some = context_of(options, task), tokens[: options.limit]
    score = perplexity.evaluate(model.to(device), some, context, device=device, on_progress=display.count)
    assert score is not None
    return score, checkpoint.step


def _tokens_of(path: Path, vocabulary: Vocabulary) -> TokenArray:
    """The token ids of a text file; unknown words are `<unk>`, if the vocabulary has it."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error.reason})") from error
    return np.array([number for line in lines for number in vocabulary.encode(line)], dtype=np.uint32)


def context_of(options: EvaluateOptions, task: LanguageModellingConfig) -> Context:
    """How the model is given context, as the options say or as it was trained."""
    length = task.segment_length if options.length is None else options.length
    kind = options.context
    if kind == "auto":
        kind = "carried" if task.carry_state else "sliding"
    if options.reach is not None and kind != "carried":
        raise ValueError(f"reach: only a carried memory has one, not {kind} context; possible: --context carried")
    if options.stride != 1 and kind != "sliding":
        raise ValueError(f"stride: only a sliding window has one, not {kind} context; possible: --context sliding")
    if kind == "carried":
        return CarriedState(length, options.reach, options.batch_size)
    if kind == "segments":
        return IndependentSegments(length, options.batch_size)
    return SlidingWindow(length, options.stride, options.batch_size)
