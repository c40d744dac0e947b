"""The command line: verbs that hand over to the library. Nothing heavy is imported before a verb runs."""

import difflib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction, arg
from tyro.extras import subcommand_cli_from_dict

from fastweights import __version__
from fastweights.cli.options import (
    EvaluateOptions,
    GenerateOptions,
    TableOptions,
    TrainOptions,
)

DESCRIPTION = (
    "Transformers whose attention is a fast-weight memory. "
    "Start with `fastweights demo`; `fastweights COMMAND --help` explains a command, `fastweights --version` "
    "prints the version."
)


def demo(out: Path = Path("fastweights-demo")) -> None:
    """The paper in a minute: overwrite an association, fill memories, train rules, and read the report.

    Args:
        out: folder for the report, its figures and the records; made if missing.
    """
    from fastweights.cli.main import commands

    commands.demo(out)


def list_components() -> None:
    """List feature maps, update rules and normalisations with their equations in the paper."""
    from fastweights.reporting import catalogue
    from fastweights.reporting.terminal import print_table

    print_table("Feature maps", catalogue.COLUMNS, catalogue.feature_map_rows())
    print_table("Update rules", (*catalogue.COLUMNS, "runs"), catalogue.update_rule_rows())
    print_table("Normalisations", catalogue.COLUMNS, catalogue.normalisation_rows())


def doctor() -> None:
    """Say what is installed, what the machine offers, which backends can run and which one is taken."""
    from fastweights.runs import environment
    from fastweights.reporting.terminal import print_table

    here = environment.Environment.here()
    print_table("Versions", ("package", "version"), environment.version_rows(here))
    print_table("Machine", ("what", "found"), environment.machine_rows(here))
    print_table("Backends", ("backend", "status", "note"), environment.backend_rows())


def run(
    setting: Positional[Literal["capacity", "overwriting"]],
    model: str = "dpfp1",
    rule: str | None = None,
    changes: Annotated[tuple[str, ...], arg(name="set", metavar="FIELD=VALUE"), UseAppendAction] = (),
    results: Path | None = None,
) -> None:
    """Train one memory on one of the paper's synthetic tasks and record how it went.

    Args:
        setting: capacity (every key once) or overwriting (keys come again with new values).
        model: where to start from: softmax, elu, dpfp1 … dpfp3, favor64 … favor512, tanh.
        rule: sum, delta, schlag2021 or schlag2021-nolayernorm; the task's usual one if absent.
        changes: change any field of the run, as in --set num_keys=50 --set attention.feature_map.nu=2.
        results: folder for the record; results/ in the repository, fastweights-results/ elsewhere.
    """
    from fastweights.cli.main import commands

    commands.run(setting, model, rule, changes, results)


def reproduce(
    what: Positional[
        tuple[
            Literal["figure1", "figure2", "figure3", "figure4", "figure5", "table2", "table3", "table4", "table5"],
            ...,
        ]
    ],
    tables: OmitArgPrefixes[TableOptions],
    quick: bool = False,
    seeds: tuple[int, ...] = (),
    results: Path | None = None,
    jobs: int | None = None,
) -> None:
    """Run what figures and tables of the paper need and make the report; given again, it goes on where it was.

    Args:
        what: figures and tables.
        tables: how language models are trained.
        quick: figures: a few sizes and models, minutes instead of hours.
        seeds: figures: seeds to run; those of the figure if absent.
        results: folder for the records; results/ in the repository, fastweights-results/ elsewhere.
        jobs: figures: how many runs side by side; one per core if absent.
    """
    from fastweights.cli.main import commands

    commands.reproduce(what, quick, seeds, results, jobs, tables)


def report(
    results: Path | None = None,
    out: Path = Path("fastweights-report"),
    update: tuple[Path, ...] = (),
    figures: Path | None = None,
) -> None:
    """Make one HTML file, and the figures as PNG and SVG, from records.

    Args:
        results: folder with the records; results/ in the repository, fastweights-results/ elsewhere.
        out: folder for report.html and its figures.
        update: Markdown files whose marked tables are filled in.
        figures: another folder that gets the figures.
    """
    from fastweights.cli.main import commands

    commands.report(results, out, update, figures)


def train(options: OmitArgPrefixes[UseAppendAction[TrainOptions]]) -> None:
    """Train a language model, or go on with a run that was stopped: give the same command again."""
    from fastweights.cli.main import language_model

    language_model.train(options)


def evaluate(options: OmitArgPrefixes[EvaluateOptions]) -> None:
    """Perplexity of a trained language model on a split of its text."""
    from fastweights.cli.main import language_model

    language_model.evaluate(options)


def generate(options: OmitArgPrefixes[GenerateOptions]) -> None:
    """Continue a text with a trained language model, token by token and in constant memory."""
    from fastweights.cli.main import language_model

    language_model.generate(options)


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "run": run,
    "reproduce": reproduce,
    "report": report,
    "train": train,
    "evaluate": evaluate,
    "generate": generate,
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
    except (ValueError, OSError, FloatingPointError) as error:
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
