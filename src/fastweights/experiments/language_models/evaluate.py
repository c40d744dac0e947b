"""Measuring a trained language model on a split of its text, as `fastweights evaluate` does."""

import math

from fastweights.data.text.corpus import Corpus, open_corpus
from fastweights.evaluation import perplexity
from fastweights.evaluation.perplexity import CarriedState, Context, IndependentSegments, Score, SlidingWindow
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.experiments.load import source_of
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
    corpus = open_corpus(options.data or source_of(options.run), vocabulary.splitter, options.cache)
    display.shows(vocabulary.splitter.unit, lambda loss: {})
    with display.shown():
        score, step = score_of(options, corpus, display)
    if not math.isfinite(score.loss):
        raise FloatingPointError(f"{options.run}: the loss on the {options.split} text is {score.loss}")
    limited = f", first {options.limit} tokens only" if options.limit else ""
    display.say(
        f"{options.run}: {options.split} perplexity {score.perplexity:.2f} per {vocabulary.splitter.unit} "
        f"({score.tokens} scored; {score.context}{limited}; checkpoint of step {step})"
    )
    return {
        "split": options.split,
        "context": score.context + limited,
        "step": step,
        "tokens": score.tokens,
        "loss": score.loss,
        "perplexity": score.perplexity,
    }


def score_of(options: EvaluateOptions, corpus: Corpus, display: Display) -> tuple[Score, int]:
    """The score of a run's model on a split, and the step of the checkpoint that was used."""
    if options.limit is not None and options.limit < 2:
        raise ValueError(f"limit: expected at least 2 tokens, got {options.limit}")
    model, task, checkpoint = load_language_model(options.run, options.checkpoint)
    if task.text != corpus.digest:
        raise ValueError(f"{options.run}: trained on another text, or on the same one split in another way")
    device = Processes.device_named(options.device)
    tokens = corpus.split(options.split)[: options.limit]
    context = context_of(options, task)
    score = perplexity.evaluate(model.to(device), tokens, context, device=device, on_progress=display.count)
    assert score is not None
    return score, checkpoint.step


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
