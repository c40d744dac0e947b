"""`fastweights evaluate`."""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import OmitArgPrefixes, Positional

from fastweights.cli.results import set_threads

if TYPE_CHECKING:
    from fastweights.data.text.corpus import Corpus
    from fastweights.evaluation.perplexity import Context, Score
    from fastweights.experiments.language_models.config import LanguageModellingConfig
    from fastweights.runs.display import Display


@dataclass(frozen=True)
class EvaluateOptions:
    """Measure the perplexity of a trained model on a split of its text."""

    run: Positional[Path]
    """Folder of the run."""
    split: Literal["valid", "test"] = "test"
    context: Literal["auto", "sliding", "segments", "carried"] = "auto"
    """Sliding window, independent segments, memory carried over the whole text; auto: as the model was trained."""
    stride: int = 1
    """Steps that a sliding window moves; 1 is the paper's evaluation, more is faster."""
    length: int | None = None
    """Tokens of a window or segment; by default that of the training."""
    reach: int | None = None
    """Tokens after which a carried memory is reset; by default it never is."""
    batch_size: int = 32
    limit: int | None = None
    """Only the first so many tokens of the split."""
    checkpoint: Literal["best", "newest"] = "best"
    data: str | None = None
    """Where the text is now, if it was moved."""
    device: str = "auto"
    threads: int | None = None
    cache: Path | None = None


def evaluate(options: OmitArgPrefixes[EvaluateOptions]) -> None:
    """Measure the perplexity of a trained language model on a split of its text, and keep it in the run's folder."""
    from fastweights.data.text.corpus import open_corpus
    from fastweights.experiments.language_models.saved import source_of, vocabulary_of
    from fastweights.runs.display import Display

    set_threads(options.threads)
    vocabulary = vocabulary_of(options.run)
    corpus = open_corpus(options.data or source_of(options.run), vocabulary.splitter, options.cache)
    display = Display.on_terminal().shows(vocabulary.splitter.unit, lambda loss: {})
    with display.shown():
        score, step = score_of(options, corpus, display)
    if not math.isfinite(score.loss):
        raise FloatingPointError(f"{options.run}: the loss on the {options.split} text is {score.loss}")
    limited = f", first {options.limit} tokens only" if options.limit else ""
    line = {"split": options.split, "context": score.context + limited, "step": step, "tokens": score.tokens}
    line |= {"loss": score.loss, "perplexity": score.perplexity}
    display.say(
        f"{options.run}: {options.split} perplexity {score.perplexity:.2f} per {vocabulary.splitter.unit} "
        f"({score.tokens} scored; {score.context}{limited}; checkpoint of step {step})"
    )
    file = options.run / "evaluations.jsonl"
    try:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")
    except OSError as error:
        print(f"warning: {file}: could not be written ({error.strerror})", file=sys.stderr)


def score_of(options: EvaluateOptions, corpus: "Corpus", display: "Display") -> "tuple[Score, int]":
    """The score of a run's model on a split, and the step of the checkpoint that was used."""
    from fastweights.evaluation import perplexity
    from fastweights.experiments.language_models.saved import load_language_model
    from fastweights.training.distributed import Processes

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


def context_of(options: EvaluateOptions, task: "LanguageModellingConfig") -> "Context":
    """How the model is given context, as the options say or as it was trained."""
    from fastweights.evaluation.perplexity import CarriedState, IndependentSegments, SlidingWindow

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
