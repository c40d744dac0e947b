"""The command line: verbs that hand over to the library. Nothing heavy is imported before a verb runs."""

import difflib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tyro.extras import subcommand_cli_from_dict

from fastweights import __version__

DESCRIPTION = (
    "Transformers whose attention is a fast-weight memory. "
    "Start with `fastweights demo`; `fastweights COMMAND --help` explains a command, `fastweights --version` "
    "prints the version."
)


def demo(out: Path = Path("fastweights-demo")) -> None:
    """Overwrite one association in a memory and see what the sum rule and the delta rule retrieve.

    Args:
        out: folder for the figure; made if missing.
    """
    from fastweights.experiments.memory_demo import run

    run(out)


def list_components() -> None:
    """List feature maps, update rules and normalisations with their equations in the paper."""
    from fastweights.reporting import catalogue
    from fastweights.reporting.terminal import print_table

    print_table("Feature maps", catalogue.COLUMNS, catalogue.feature_map_rows())
    print_table("Update rules", (*catalogue.COLUMNS, "runs"), catalogue.update_rule_rows())
    print_table("Normalisations", catalogue.COLUMNS, catalogue.normalisation_rows())


def doctor() -> None:
    """Say what is installed, what the machine offers, which backends can run and which one is taken."""
    from fastweights.reporting import environment
    from fastweights.reporting.terminal import print_table

    here = environment.Environment.here()
    print_table("Versions", ("package", "version"), environment.version_rows(here))
    print_table("Machine", ("what", "found"), environment.machine_rows(here))
    print_table("Backends", ("backend", "status", "note"), environment.backend_rows())


COMMANDS: dict[str, Callable[..., None]] = {"demo": demo, "list": list_components, "doctor": doctor}


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
    except (ValueError, OSError) as error:
        if os.environ.get("FASTWEIGHTS_TRACEBACK"):
            raise
        print("error: " + " ".join(str(error).split()), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def unknown_command(name: str) -> str:
    """One line that says which commands exist and which one was probably meant."""
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    suggestion = f"did you mean {close[0]!r}? " if close else ""
    return f"error: there is no command {name!r}; {suggestion}possible: {', '.join(COMMANDS)}"


if __name__ == "__main__":
    main()
