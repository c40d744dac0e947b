"""Measuring a trained language model on a split of its text or on another text, as `fastweights evaluate` does."""

import math
from pathlib import Path

from fastweights.data.text.cache import TokenArray
from fastweights.data.text.corpus import open_if_it_is
from fastweights.data.text.held_out import read_held_out
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
    if options.limit is not None and options.limit < 2:
        raise ValueError(f"limit: expected at least 2 tokens, got {options.limit}")
    vocabulary = vocabulary_of(options.run)
    unit, unknown = vocabulary.tokenizer.unit, None
    display.shows(unit, lambda loss: {})
    with display.shown():
        tokens, unknown = tokens_of(options, vocabulary)
        score, step = score_of(options, tokens, display)
    if not math.isfinite(score.loss):
        raise FloatingPointError(f"{options.run}: the loss on the {options.split} text is {score.loss}")
    limited = f", first {options.limit} tokens only" if options.limit else ""
    text = options.split if unknown is None else f"{options.data}, of which {100 * unknown:.2f} % are unknown {unit}s,"
    display.say(
        f"{options.run}: {text} perplexity {score.perplexity:.2f} per {unit} "
        f"({score.tokens} scored; {score.context}{limited}; checkpoint of step {step})"
    )
    other = {} if unknown is None else {"text": options.data, "unknown": unknown}
    return {
        "split": options.split,
        **other,
        "context": score.context + limited,
        "step": step,
        "tokens": score.tokens,
        "loss": score.loss,
        "perplexity": score.perplexity,
    }


def tokens_of(options: EvaluateOptions, vocabulary: Vocabulary) -> tuple[TokenArray, float | None]:
    """The split of the run's own text; or of another one that `--data` names, with its share of unknown tokens."""
    task = read_run(options.run).task
    assert isinstance(task, LanguageModellingConfig)
    source = options.data or source_of(options.run)
    corpus = open_if_it_is(task.text, source, vocabulary, options.cache)
    if corpus is not None:
        return corpus.split(options.split)[: options.limit], None
    if options.data is not None and Path(source).exists():
        text = read_held_out(source, options.split, vocabulary, options.limit)
        return text.tokens, text.unknown
    raise ValueError(
        f"{options.run}: trained on another text than {source} is now; give one as --data, the same or another"
    )


def score_of(options: EvaluateOptions, tokens: TokenArray, display: Display) -> tuple[Score, int]:
    """The score of a run's model on some tokens, and the step of the checkpoint that was used."""
    model, task, checkpoint = load_language_model(options.run, options.checkpoint)
    device = Processes.device_named(options.device)
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
