"""`fastweights generate`."""

import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fastweights.cli.results import set_threads
from fastweights.experiments.options import Checkpoint, Device, OptionalPath, Threads


@dataclass(frozen=True)
class GenerateOptions:
    """Let a trained model continue a text."""

    run: Positional[Path]
    """Folder of the run."""
    prompt: str = ""
    """The text to continue."""
    prompt_file: OptionalPath = None
    """A file to read the prompt from; - for the standard input."""
    length: int = 200
    """Words, characters or byte pairs to write."""
    temperature: float = 1.0
    """0 takes the likeliest word every time."""
    top_k: int = 0
    """Choose among the likeliest words, this many; 0 for all."""
    top_p: float = 1.0
    """Choose among the likeliest words that together have this probability."""
    seed: int = 0
    """Another seed gives another text."""
    checkpoint: Checkpoint = "best"
    device: Device = "auto"
    threads: Threads = None


def generate(options: Annotated[GenerateOptions, arg(name="")]) -> None:
    """Continue a text with a trained language model, token by token and in constant memory."""
    from fastweights.data.text.tokenizers import Words
    from fastweights.evaluation import sampling
    from fastweights.evaluation.prompt import printable, prompt_tokens
    from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
    from fastweights.training.distributed import Processes

    set_threads(options.threads)
    how = sampling.Sampling(options.temperature, options.top_k, options.top_p, options.seed)
    if options.length < 0:
        raise ValueError(f"length: expected 0 or more, got {options.length}")
    prompt = _prompt(options)
    model, task, _ = load_language_model(options.run, options.checkpoint)
    device = Processes.device_named(options.device)
    vocabulary = vocabulary_of(options.run)
    start = prompt_tokens(vocabulary, prompt)
    if model.config.positions and not task.carry_state and len(start) + options.length > task.segment_length:
        print(
            f"warning: the model was trained on texts of {task.segment_length} {vocabulary.tokenizer.unit}s "
            "with positions, and may fall apart beyond; presets with -nopos-carried do not",
            file=sys.stderr,
        )
    new = islice(sampling.generate(model.to(device), start, how, device=device), options.length)
    if prompt:
        print(printable(prompt), end=" " if isinstance(vocabulary.tokenizer, Words) else "", flush=True)
    try:
        for text in vocabulary.decode(new):
            print(printable(text), end="", flush=True)
    finally:
        print()


def _prompt(options: GenerateOptions) -> str:
    if options.prompt_file is None:
        return options.prompt
    if options.prompt:
        raise ValueError("prompt: expected --prompt or --prompt-file, got both")
    try:
        if str(options.prompt_file) == "-":
            return sys.stdin.buffer.read().decode()
        return options.prompt_file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{options.prompt_file}: not UTF-8 text ({error.reason})") from error
