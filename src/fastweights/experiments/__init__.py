"""What the paper shows and what is added to it: one package per family of experiments, the same files in each.

    config.py    CONFIG, the configuration of the family's task: a `TaskConfig`
    task.py      the `Task` that it opens: data, model, loss, evaluation
    presets.py   `preset(name, …)`, the runs that have names; `fastweights run` gives it a model and a rule, or None;
                 `for_data(run, data)` if the digest of the data is a part of a run;
                 `for_task(run, model, rule)` if its recipe depends on fields that `--set` changes;
                 what `fastweights train` offers: PRESETS by SIZES, and `on_data(run, options)`
    evaluate.py, export.py   what these commands do with a trained model of the family (if it has any)
    continued.py  `continue_from(path, options)`, what `fastweights train --from` does (if the family can)
    claims.py    CLAIMS of the paper, questions of its REVIEW, claims of LATER_WORK, each with the rule that decides it
    figureN.py, tableN.py   one figure or table of the paper, listed in `SHOWS`: TITLE, TEXT, `runs(options)`, and the
                            drawings and tables that it shows, `contents(records)`

The package itself imports nothing heavy: it says what it `SHOWS`, which tasks `fastweights run` offers (`RUNS`), and
what its records are called in the report (`RECORDS`).
"""

from collections.abc import Iterable
from importlib import import_module

EXPERIMENTS: dict[str, str] = {
    "retrieval": "fastweights.experiments.retrieval",
    "translation": "fastweights.experiments.translation",
    "documents": "fastweights.experiments.documents",
    "language-model": "fastweights.experiments.language_models",
    "contrast": "fastweights.experiments.contrast",
    "growth": "fastweights.experiments.growth",
    "recall": "fastweights.experiments.recall",
    "questions": "fastweights.experiments.questions",
    "images": "fastweights.experiments.images",
}
"""The families by the name of their task; the command line, the report and the tests read this table."""


def shown_modules() -> dict[str, str]:
    """Every figure and table with the name of its module, those of the paper first."""
    found = {show: f"{package}.{show}" for package in EXPERIMENTS.values() for show in import_module(package).SHOWS}
    return dict(sorted(found.items(), key=lambda shown: not shown[0].startswith(("figure", "table"))))


def split_preset(preset: str, sizes: Iterable[str]) -> tuple[str, str]:
    """The size and the model that the name of a preset stands for; of several sizes that fit, the longest."""
    size = max((size for size in sizes if preset.startswith(f"{size}-")), key=len, default="")
    return size, preset[len(size) + 1 :] if size else preset


def runnable() -> dict[str, str]:
    """The names that `fastweights run` accepts, with the package of their family."""
    return {run: package for package in EXPERIMENTS.values() for run in import_module(package).RUNS}
