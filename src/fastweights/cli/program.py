"""The program `fastweights`: finds the verb, and turns a user's mistake into one line."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tyro.extras import subcommand_cli_from_dict

from fastweights import __version__
from fastweights.cli.demo import demo
from fastweights.cli.doctor import doctor
from fastweights.cli.evaluate import evaluate
from fastweights.cli.export import export
from fastweights.cli.generate import generate
from fastweights.cli.listing import list_components
from fastweights.cli.look import look
from fastweights.cli.play import play
from fastweights.cli.report import report
from fastweights.cli.reproduce import reproduce
from fastweights.cli.run import run
from fastweights.cli.train import train
from fastweights.cli.translate import translate
from fastweights.config import closest

DESCRIPTION = (
    "Transformers whose attention is a fast-weight memory. "
    "Start with `fastweights demo`; `fastweights COMMAND --help` explains a command, `fastweights --version` "
    "prints the version."
)

COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "run": run,
    "reproduce": reproduce,
    "report": report,
    "train": train,
    "evaluate": evaluate,
    "generate": generate,
    "translate": translate,
    "look": look,
    "play": play,
    "export": export,
    "list": list_components,
    "doctor": doctor,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake ends in one line and a non-zero exit code, not in a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["--version"]:
        print(f"fastweights {__version__}")
        return
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        print(unknown_command(arguments[0]), file=sys.stderr)
        sys.exit(2)
    try:
        subcommand_cli_from_dict(COMMANDS, prog="fastweights", description=DESCRIPTION, args=arguments)
    except BrokenPipeError:
        # Whoever read the output has had enough; what is still in its buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, FloatingPointError) as error:
        if os.environ.get("FASTWEIGHTS_TRACEBACK"):
            raise
        _end_with("error: " + " ".join(str(error).split()))
    except (MemoryError, RuntimeError) as error:
        if os.environ.get("FASTWEIGHTS_TRACEBACK") or not _ran_out_of_memory(error):
            raise
        _end_with(f"error: not enough memory for this; {str(error).splitlines()[0]}")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def _end_with(message: str) -> None:
    """End with one line; under torchrun, whose own report of what failed comes last, the line stands there as well."""
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        Path(path).write_text(json.dumps({"message": message, "timestamp": int(time.time())}), encoding="utf-8")
    print(message, file=sys.stderr)
    sys.exit(1)


def _ran_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error) or "out of memory" in str(error)


def unknown_command(name: str) -> str:
    """One line that says which commands exist and which one was probably meant."""
    meant = closest(name, COMMANDS)
    suggestion = f"did you mean {meant!r}? " if meant else ""
    return f"error: there is no command {name!r}; {suggestion}possible: {', '.join(COMMANDS)}"
