"""The commands about language models: train one, measure its perplexity, let it write."""

import json
import math
import signal
import sys
from itertools import islice
from pathlib import Path

import torch

from fastweights.data.text.corpus import Corpus, open_corpus
from fastweights.data.text.tokenizers import END_OF_LINE, SPLITTERS, BytePairs, Splitter, Vocabulary, Words
from fastweights.evaluation import perplexity
from fastweights.evaluation.sampling import Sampling
from fastweights.evaluation.sampling import generate as continuation
from fastweights.evaluation.perplexity import CarriedState, Context, IndependentSegments, Score, SlidingWindow
from fastweights.cli.options import EvaluateOptions, GenerateOptions, TrainOptions
from fastweights.experiments.language_models.task import LanguageModelRun, load_run, preset_run, train_run
from fastweights.runs.training_display import TrainingDisplay
from fastweights.experiments.language_models.presets import preset_named
from fastweights.training.config import Upkeep
from fastweights.training.distributed import World
from fastweights.runs.directory import read_json


def train(options: TrainOptions) -> None:
    """The command: train, show how it goes, and end with a line that says where the run is."""
    set_threads(options.threads)
    preset_named(options.preset)  # a mistake here should not cost the time to read the text
    with World.join(options.device) as world:
        corpus = shared_corpus(
            options.data, _splitter(options.tokens, options.vocabulary_size), options.cache, world=world
        )
        run = preset_run(options.preset, corpus).changed(*options.set)
        upkeep = Upkeep(options.save_every_steps, options.save_every_seconds, when_not_finite=options.when_not_finite)
        display = TrainingDisplay(corpus.vocabulary.splitter.unit, quiet=not world.first)
        try:
            outcome = train_run(
                run, corpus, options.out, upkeep=upkeep, world=world, display=display, source=options.data
            )
        except FloatingPointError as error:
            raise ValueError(f"{options.out}: {error}") from error
    if outcome is None:
        display.say(f"{options.out}: this run is finished; its result is in {options.out / 'result.json'}")
    elif outcome.finished:
        display.say(f"{options.out}: finished; try `fastweights generate {options.out}`")
    else:
        name = signal.Signals(outcome.signal or signal.SIGTERM).name
        display.say(f"{options.out}: stopped by {name} after step {outcome.journal.step}, all of it saved")
        sys.exit(128 + (outcome.signal or signal.SIGTERM))


def shared_corpus(source: str, splitter: Splitter, cache: Path | None = None, *, world: World) -> Corpus:
    """The corpus, tokenised by the first process while the others wait."""
    if not world.first:
        world.from_first(0)
        return open_corpus(source, splitter, cache)
    corpus = open_corpus(source, splitter, cache)
    world.from_first(0)
    return corpus


def evaluate_run(
    path: Path, corpus: Corpus, options: EvaluateOptions, display: TrainingDisplay | None = None
) -> tuple[Score, int]:
    """The score of a run's model on a split, and the step of the checkpoint that was used."""
    if options.limit is not None and options.limit < 2:
        raise ValueError(f"limit: expected at least 2 tokens, got {options.limit}")
    model, run, checkpoint = load_run(path, options.checkpoint)
    if run.text != corpus.digest:
        raise ValueError(f"{path}: trained on another text, or on the same one split in another way")
    device = World.device_named(options.device)
    model.to(device)
    tokens = corpus.split(options.split)[: options.limit]
    context = _context(options, run)
    on_progress = (lambda done, total: None) if display is None else display.count
    score = perplexity.evaluate(model, tokens, context, device=device, on_progress=on_progress)
    assert score is not None
    return score, checkpoint.step


def evaluate(options: EvaluateOptions) -> None:
    """The command: print the perplexity and add it to evaluations.jsonl of the run."""
    set_threads(options.threads)
    vocabulary = _vocabulary(options.run)
    corpus = open_corpus(options.data or _source(options.run), vocabulary.splitter, options.cache)
    display = TrainingDisplay(vocabulary.splitter.unit)
    with display.shown():
        score, step = evaluate_run(options.run, corpus, options, display)
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


def generate(options: GenerateOptions) -> None:
    """The command: print the prompt and what the model makes of it, as it comes."""
    set_threads(options.threads)
    sampling = Sampling(options.temperature, options.top_k, options.top_p, options.seed)
    if options.length < 0:
        raise ValueError(f"length: expected 0 or more, got {options.length}")
    model, _, _ = load_run(options.run, options.checkpoint)
    device = World.device_named(options.device)
    vocabulary = _vocabulary(options.run)
    start = prompt_tokens(vocabulary, options.prompt)
    new = islice(continuation(model.to(device), start, sampling, device=device), options.length)
    if options.prompt:
        print(printable(options.prompt), end=" " if isinstance(vocabulary.splitter, Words) else "", flush=True)
    try:
        for text in vocabulary.decode(new):
            print(printable(text), end="", flush=True)
    finally:
        print()


def prompt_tokens(vocabulary: Vocabulary, prompt: str) -> list[int]:
    """The tokens of a prompt; a text starts at the beginning of a line if nothing is given."""
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in prompt):
        raise ValueError("prompt: not UTF-8 text")
    if prompt:
        tokens = [token for line in prompt.splitlines(keepends=True) for token in vocabulary.encode(line)]
        # The prompt's last line is to be continued, not ended.
        unfinished = isinstance(vocabulary.splitter, Words) and not prompt.endswith("\n") and len(tokens) > 1
        return tokens[:-1] if unfinished else tokens
    for symbol in (END_OF_LINE, "\n", "Ċ"):
        if symbol in vocabulary.numbers:
            return [vocabulary.numbers[symbol]]
    return [0]


def printable(text: str) -> str:
    """Text that cannot steer a terminal: control characters other than line ends and tabs are shown as �."""
    return "".join(letter if letter in "\n\t" or letter.isprintable() else "�" for letter in text)


def _context(options: EvaluateOptions, run: LanguageModelRun) -> Context:
    length = run.training.segment_length if options.length is None else options.length
    kind = options.context
    if kind == "auto":
        kind = "carried" if run.training.carry_state else "sliding"
    if options.reach is not None and kind != "carried":
        raise ValueError(f"reach: only a carried memory has one, not {kind} context; possible: --context carried")
    if options.stride != 1 and kind != "sliding":
        raise ValueError(f"stride: only a sliding window has one, not {kind} context; possible: --context sliding")
    if kind == "carried":
        return CarriedState(length, options.reach, options.batch_size)
    if kind == "segments":
        return IndependentSegments(length, options.batch_size)
    return SlidingWindow(length, options.stride, options.batch_size)


def _splitter(name: str, vocabulary_size: int | None) -> Splitter:
    if vocabulary_size is None:
        return SPLITTERS[name]()
    if name != "bpe":
        raise ValueError(f"vocabulary_size: only byte pairs have one, not {name}; possible: --tokens bpe")
    return BytePairs(vocabulary_size)


def _source(path: Path) -> str:
    """Where the text of a run was when its training began."""
    file = path / "source.json"
    source = read_json(file).get("source") if file.exists() else None
    if not isinstance(source, str):
        raise ValueError(f"{path}: the run does not say where its text is; give it as --data")
    return source


def _vocabulary(path: Path) -> Vocabulary:
    if not (path / "vocabulary.json").exists():
        raise ValueError(f"{path}: this is not the folder of a run, there is no vocabulary.json")
    size = LanguageModelRun.from_dict(read_json(path / "config.json")).model.vocabulary_size
    try:
        vocabulary = Vocabulary.from_json((path / "vocabulary.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path / 'vocabulary.json'}: corrupted ({error})") from error
    if len(vocabulary) != size:
        raise ValueError(f"{path / 'vocabulary.json'}: {len(vocabulary)} symbols, but the model of the run has {size}")
    return vocabulary


def set_threads(threads: int | None) -> None:
    """Let torch use so many threads; as many as it likes if None."""
    if threads is not None:
        if threads < 1:
            raise ValueError(f"threads: expected at least 1, got {threads}")
        torch.set_num_threads(threads)
