"""Every record that was ever made is found by its run, in each layout and form that a version wrote."""

import json
import shutil
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastweights.config import ConfigCodec
from fastweights.experiments import language_models, shown_modules
from fastweights.experiments.families import codec, shown_module
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.perplexities import PAPER, perplexities
from fastweights.experiments.language_models.presets import PRESETS, for_text, size_of
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.paper import other_runs
from fastweights.experiments.records import coverage_of, load, missing
from fastweights.experiments.retrieval.config import RetrievalConfig
from fastweights.experiments.retrieval.presets import preset
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.runs.record import Record, read_records, write_record
from fastweights.training.config import TrainingConfig
from fastweights.training.run import Run, RunCodec
from fastweights.training.stopping import Stopping
from fastweights.training.task import TaskConfig
from retrieval_records import record

RESULTS = Path(__file__).parents[2] / "results"
FIGURES = [name for name in shown_modules() if name.startswith("figure")]
TABLES = [name for name in language_models.SHOWS if name.startswith("table")]


@pytest.fixture(scope="module")
def found() -> dict[Run, Record]:
    return load(RESULTS)


def test_every_record_is_one_of_a_run(found: dict[Run, Record]) -> None:
    kinds = [type(run.task) for run in found]
    assert kinds.count(RetrievalConfig) >= 336
    assert kinds.count(LanguageModellingConfig) >= 15
    assert len(read_records(RESULTS)) == len(found), "no two records are of one run"


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_finds_all_of_its_records(name: str, found: dict[Run, Record]) -> None:
    covered, wanted, _ = coverage_of(shown_module(name), found)
    assert len(covered) == wanted


@pytest.mark.parametrize("name", TABLES)
def test_every_table_finds_the_records_of_the_models_in_the_paper(name: str, found: dict[Run, Record]) -> None:
    ours = perplexities(found)
    models = [
        model
        for models in PAPER.found.values()
        for model in models
        if model in shown_module(name).TABLE.models.values()
    ]
    assert models
    assert all(ours.get("cpu", model) is not None for model in models)


def test_every_record_is_in_a_figure_or_a_table(found: dict[Run, Record]) -> None:
    assert other_runs(found) is None


def test_no_run_of_a_figure_is_missing() -> None:
    options = (ReproduceOptions(), ReproduceOptions(quick=True))
    wanted = [run for name in FIGURES for option in options for run in shown_module(name).runs(option)]
    assert len(wanted) > 295
    assert missing(wanted, RESULTS) == []


def test_no_run_of_a_table_is_missing(found: dict[Run, Record]) -> None:
    tasks = [run.task for run in found if isinstance(run.task, LanguageModellingConfig) and size_of(run) == "cpu"]
    ((text, words),) = {(task.text, task.model.vocabulary_size) for task in tasks}
    found_models = {model for models in PAPER.found.values() for model in models}
    presets = [
        [preset for preset in shown_module(name).TABLE.presets() if preset.partition("-")[2] in found_models]
        for name in TABLES
    ]
    assert all(presets)
    assert missing([for_text(PRESETS[preset], words, text) for each in presets for preset in each], RESULTS) == []


def test_records_may_lie_in_one_folder(found: dict[Run, Record], tmp_path: Path) -> None:
    for folder in (RESULTS / "records", RESULTS / "language-models" / "records"):
        shutil.copytree(folder, tmp_path / "records", dirs_exist_ok=True)
    assert load(tmp_path) == found


def test_records_written_anew_are_of_the_same_runs(found: dict[Run, Record], tmp_path: Path) -> None:
    for run, each in found.items():
        write_record(tmp_path, codec().name(run), replace(each, config=codec().to_plain(run)))
    again = load(tmp_path)
    assert again.keys() == found.keys()
    assert {run.preset for run in again} == {run.preset for run in found}
    assert all(again[run].result == each.result for run, each in found.items())


@dataclass(frozen=True)
class WiderLanguageModelling(LanguageModellingConfig):
    added: str = "new"


@dataclass(frozen=True)
class WiderTranslation(TranslationConfig):
    added: tuple[int, ...] = ()


@dataclass(frozen=True)
class WiderTraining(TrainingConfig):
    added: float | None = None


@dataclass(frozen=True)
class WiderStopping(Stopping):
    added: bool = False


def test_a_field_that_is_added_with_a_default_orphans_no_record(found: dict[Run, Record]) -> None:
    today = codec().codec
    known = {"translation": WiderTranslation, "language-model": WiderLanguageModelling}
    wider = {name: known.get(name, wider_by_a_number(kind)) for name, kind in today.registries[TaskConfig].items()}
    later = RunCodec(ConfigCodec({**today.registries, TaskConfig: wider}, today.constants))
    for run, each in found.items():
        read = later.from_plain(each.config)
        assert type(read.task) in wider.values()
        # Records and run folders are named by the digest; runs are compared by their fields.
        described = Run(
            widened(run.task, type(read.task)),
            widened(run.training, WiderTraining),
            run.stopping if run.stopping == Stopping() else widened(run.stopping, WiderStopping),
            preset=run.preset,
        )
        assert later.name(described) == codec().name(run)
        assert read.task == described.task
        assert later.from_plain(codec().to_plain(run)).task == described.task


def wider_by_a_number(kind: type) -> type:
    return make_dataclass(f"Wider{kind.__name__}", [("added", int, 3)], bases=(kind,), frozen=True)


def widened(value: Any, wider: type) -> Any:
    return wider(**{field.name: getattr(value, field.name) for field in fields(value)})


def test_of_two_records_of_one_run_the_fuller_one_counts(tmp_path: Path) -> None:
    run = preset("capacity", "dpfp1")
    less, more = record(run), record(run)
    more.result["measured"] = {"loss": 1.0}
    for order in ((less, more), (more, less)):
        for name, each in zip(("a", "b"), order, strict=True):
            write_record(tmp_path, name, each)
        assert load(tmp_path) == {run: more}


def test_runs_are_asked_for_once_each(tmp_path: Path) -> None:
    first, second = preset("capacity", "dpfp1"), preset("capacity", "elu")
    write_record(tmp_path, "any name", record(second))
    assert missing([first, second, first], tmp_path) == [first]
    assert missing([second], tmp_path / "no such folder") == [second]


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"task": {"name": "retrieval", "setting": "capacity"}, "training": {}}, "missing"),
        ({}, "not the configuration of a run; its fields are none"),
        ({"weights": 3}, "not the configuration of a run; its fields are weights"),
        ({"task": {"name": "other"}, "training": {"steps": 1, "batch_size": 1}}, "unknown name 'other'"),
    ],
)
def test_a_record_of_no_run_is_named(config: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    path = write_record(tmp_path, "x", replace(record(preset("capacity", "dpfp1")), config=config))
    with pytest.raises(ValueError, match=rf"{path}: corrupted record, .*{complaint}"):
        load(tmp_path)


def test_a_record_of_another_format_is_named(tmp_path: Path) -> None:
    path = write_record(tmp_path, "x", record(preset("capacity", "dpfp1")))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 9}))
    with pytest.raises(ValueError, match="not a record of format 2, its format is 9"):
        load(tmp_path)


def test_coverage_counts_what_is_there() -> None:
    first, second = preset("capacity", "dpfp1"), preset("capacity", "elu")
    records = {first: record(first)}
    shown = SimpleNamespace(runs=lambda options: [first] if options.quick else [first, second])
    assert coverage_of(shown, records) == ([records[first]], 2, 1)
