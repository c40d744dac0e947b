"""`fastweights evaluate`."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from fastweights.cli.results import set_threads
from fastweights.experiments.options import EvaluateOptions


def evaluate(options: Annotated[EvaluateOptions, arg(name="")]) -> None:
    """Measure a trained model on a split of its data and keep the result in the folder of the run.

    Language models get a perplexity, translators BLEU and chrF.
    """
    from fastweights.experiments.families import module_for
    from fastweights.experiments.load import read_run
    from fastweights.kernels.products import best_products
    from fastweights.runs.display import Display

    set_threads(options.threads)
    family = module_for(read_run(options.run).task, "evaluate")
    if family is None:
        raise ValueError(f"{options.run}: runs of this task keep no model that could be evaluated")
    with best_products():
        measured = family.evaluate(options, Display.on_terminal())
    _keep(measured, options.run / "evaluations.jsonl")


def _keep(measured: dict[str, Any], file: Path) -> None:
    try:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(measured) + "\n")
    except OSError as error:
        print(f"warning: {file}: could not be written ({error.strerror})", file=sys.stderr)
