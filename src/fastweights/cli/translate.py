"""`fastweights translate`."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fastweights.cli.results import set_threads
from fastweights.experiments.options import Checkpoint, Device, Threads


@dataclass(frozen=True)
class TranslateOptions:
    """Translate text with a trained translator, line by line."""

    run: Positional[Path]
    """Folder of the run."""
    file: Positional[str] = "-"
    """Text to translate, one sentence a line; - is standard input, which is translated as it comes."""
    beam: int = 4
    """Hypotheses of the beam search; 1 is greedy."""
    length_penalty: float = 0.6
    """log p / length^PENALTY decides between hypotheses; more makes longer translations."""
    batch_tokens: int = 2000
    """Tokens of the sentences that are translated together, padding included."""
    scores: bool = False
    """Write log p(translation | source) and a tab before every translation."""
    checkpoint: Checkpoint = "best"
    device: Device = "auto"
    threads: Threads = None


def translate(options: Annotated[TranslateOptions, arg(name="")]) -> None:
    """Translate text with a trained translator: one line in, one line out, in order; empty lines stay empty."""
    from fastweights.evaluation import translate as translation
    from fastweights.evaluation.prompt import printable
    from fastweights.experiments.translation.saved import load_translator, tokeniser_of
    from fastweights.training.distributed import Processes

    set_threads(options.threads)
    # A person at a terminal, or a program that waits for an answer, gets every line at once.
    window = 1 if options.file == "-" else translation.Search.window
    search = translation.Search(options.beam, options.length_penalty, options.batch_tokens, window)
    tokeniser = tokeniser_of(options.run)
    model, _, _ = load_translator(options.run, options.checkpoint)
    model.to(Processes.device_named(options.device))
    for found in translation.translate(model, tokeniser, _lines(options.file), search, scores=options.scores):
        score = f"{found.log_probability:.4f}\t" if options.scores else ""
        print(f"{score}{printable(found.text)}", flush=True)


def _lines(file: str) -> Iterator[str]:
    """The lines of a file or of standard input, as they come."""
    if file == "-":
        yield from _decoded(sys.stdin.buffer, "standard input")
        return
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"{path}: no such file; - is standard input")
    with path.open("rb") as opened:
        yield from _decoded(opened, str(path))


def _decoded(lines: Iterator[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: line {number} is not UTF-8 text ({error.reason})") from error
