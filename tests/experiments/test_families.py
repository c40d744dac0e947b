"""The families of experiments: every figure, table and preset is found by its name."""

from importlib import import_module

import pytest

from fastweights.experiments import EXPERIMENTS, runnable, shown_modules
from fastweights.experiments.families import codec, family_modules, shown_module
from fastweights.training.task import TaskConfig


def test_every_figure_and_table_has_what_the_report_needs() -> None:
    of_the_paper = [*(f"figure{n}" for n in range(1, 6)), *(f"table{n}" for n in range(1, 6))]
    assert list(shown_modules())[: len(of_the_paper)] == of_the_paper
    for name in shown_modules():
        module = shown_module(name)
        title = f"{name[:-1]} {name[-1]}" if name in of_the_paper else name
        assert module.TITLE.lower().startswith(f"{title}: ")
        assert callable(module.runs)
        assert module.TEXT
        assert callable(module.contents)


@pytest.mark.parametrize("package", EXPERIMENTS.values())
def test_every_family_has_the_same_files(package: str) -> None:
    for name in ("config", "task", "presets", "claims"):
        assert import_module(f"{package}.{name}").__doc__
    assert issubclass(import_module(f"{package}.config").CONFIG, TaskConfig)


def test_an_unknown_figure_gets_the_list() -> None:
    with pytest.raises(ValueError, match=r"unknown name 'figure6' .*; possible: figure1, figure2"):
        shown_module("figure6")


def test_what_can_be_run_has_a_preset() -> None:
    assert list(runnable())[:2] == ["capacity", "overwriting"]
    for setting, package in runnable().items():
        run = import_module(f"{package}.presets").preset(setting, None, None)
        assert run.slug.startswith("qa1-" if setting == "questions" else setting)


def test_a_family_without_a_module_is_passed_over() -> None:
    assert [module.__name__ for module in family_modules("figure1")] == ["fastweights.experiments.retrieval.figure1"]
    assert list(family_modules("no_such_module")) == []


def test_tasks_are_known_by_the_names_of_the_table() -> None:
    complete = {"questions", "images"}
    for name in EXPERIMENTS:
        plain = {"task": {"name": name}, "training": {"steps": 1, "batch_size": 1}}
        if name in complete:
            assert isinstance(codec().from_plain(plain).task, codec().task_type(name))
            continue
        with pytest.raises(ValueError, match=r"^task: missing \w+"):
            codec().from_plain(plain)
    with pytest.raises(ValueError, match=f"unknown name 'other'; possible: {', '.join(EXPERIMENTS)}"):
        codec().from_plain({"task": {"name": "other"}, "training": {"steps": 1, "batch_size": 1}})
