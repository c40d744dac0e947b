"""Carrying runs to their records: owned by one process, stopped and resumed, one here or many side by side."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from fastweights.experiments.carry_out import (
    POLICY,
    SMALL_RUNS,
    Stopped,
    carry_out,
    job_of,
    serve,
    sweep_runs,
    train_in_turn,
)
from fastweights.experiments.families import codec
from fastweights.experiments.records import load, missing
from fastweights.experiments.retrieval import figure2, figure3
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.presets import preset
from fastweights.files import exclusive
from fastweights.runs.display import Display
from fastweights.runs.record import record_path, run_folder
from fastweights.training.distributed import Processes
from fastweights.training.loop import NotFiniteError, Trainer
from fastweights.training.run import Run, RunCodec
from retrieval_records import task_of


def small(seed: int = 1, steps: int = 60) -> Run:
    run = preset("capacity", "dpfp1", "sum", 8, seed, AS_PUBLISHED)
    return codec().changed(
        run, ["key_dim=8", "evaluate_every=20", "patience=1000", "stop_loss=0.0", f"max_steps={steps}"]
    )


def test_a_run_that_someone_else_owns_is_not_touched(tmp_path: Path) -> None:
    run = small()
    with exclusive(run_folder(tmp_path, codec().name(run))) as owner:
        assert owner is None
        assert carry_out(run, tmp_path) is None
    assert missing([run, run], tmp_path) == [run]
    record = carry_out(run, tmp_path)
    assert record is not None
    assert record.result["steps"] == 60
    assert missing([run], tmp_path) == []
    assert load(tmp_path) == {run: record}


def test_a_run_that_is_stopped_leaves_no_record_and_goes_on_later(tmp_path: Path) -> None:
    run = small()
    answers = iter([False] * 30 + [True] * 9)
    with pytest.raises(Stopped):
        carry_out(run, tmp_path / "a", interrupted=lambda: next(answers))
    assert not (tmp_path / "a" / "records").exists()
    resumed, through = carry_out(run, tmp_path / "a"), carry_out(run, tmp_path / "b")
    assert resumed is not None
    assert through is not None
    assert resumed.curve == through.curve


def test_a_run_that_began_before_a_field_was_added_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, to_plain = small(), RunCodec.to_plain

    def without_new_field(self: RunCodec, run: Run) -> dict[str, Any]:
        plain = to_plain(self, run)
        del plain["training"]["accumulation"]
        return plain

    answers = iter([False] * 30 + [True] * 9)
    with monkeypatch.context() as patch:
        patch.setattr(RunCodec, "to_plain", without_new_field)
        with pytest.raises(Stopped):
            carry_out(run, tmp_path / "a", interrupted=lambda: next(answers))
    folder = run_folder(tmp_path / "a", codec().name(run))
    assert "accumulation" not in (folder / "config.json").read_text()
    resumed, through = carry_out(run, tmp_path / "a"), carry_out(run, tmp_path / "b")
    assert resumed is not None
    assert through is not None
    assert resumed.curve == through.curve
    assert load(tmp_path / "a").keys() == {run}


def test_a_record_is_named_by_its_run_and_says_its_preset(tmp_path: Path) -> None:
    run = small()
    record = carry_out(run, tmp_path)
    path = record_path(tmp_path, codec().name(run))
    fields = json.loads(path.read_text())
    assert fields["format"] == 2
    assert fields["config"]["preset"] == "capacity-dpfp1-sum"
    assert codec().from_plain(fields["config"]) == run
    assert record == load(tmp_path)[run]


def test_a_request_that_went_through_json_is_the_same_run(tmp_path: Path) -> None:
    run = small()
    job = job_of(run, "some text")
    events: list[dict[str, Any]] = []
    request = json.loads(job.request)
    assert request["data"] == "some text"
    serve(request | {"data": None}, tmp_path, lambda: False, events.append)
    assert events[-1]["event"] == "finished"
    assert load(tmp_path)[run].result == events[-1]["result"]
    assert {event["event"] for event in events[:-1]} == {"progress"}
    assert job.is_done(tmp_path)


def test_a_worker_says_when_a_run_is_taken_or_was_stopped(tmp_path: Path) -> None:
    run = small()
    request, events = json.loads(job_of(run).request), []
    with exclusive(run_folder(tmp_path, codec().name(run))):
        serve(request, tmp_path, lambda: False, events.append)
    assert events == [{"event": "taken"}]
    serve(request, tmp_path, lambda: True, events.append)
    assert events[-1] == {"event": "taken"}
    assert load(tmp_path) == {}


def test_long_runs_cost_more_than_short_ones() -> None:
    by_cost = sorted(figure2.runs() + figure3.runs(), key=lambda run: -job_of(run).cost)
    first = {type(task_of(run).attention.update_rule).__name__ for run in by_cost[:6]}  # type: ignore[attr-defined]
    assert first == {"FastWeightMemoryRule"}
    capacity = [run for run in by_cost if task_of(run).setting == "capacity"]
    assert task_of(capacity[0]).num_keys == 600
    assert task_of(capacity[-1]).num_keys == 20


def test_two_processes_leave_the_records_that_one_leaves(tmp_path: Path) -> None:
    runs = [small(seed) for seed in (1, 2, 3)]
    shuffled = random.Random(0).sample([*runs, *runs], 6)
    sweep_runs(shuffled, tmp_path / "two", jobs=2, title="test")
    for run in runs:
        carry_out(run, tmp_path / "one")
    two, one = load(tmp_path / "two"), load(tmp_path / "one")
    assert two.keys() == one.keys() == set(runs)
    assert all(two[run].curve == one[run].curve for run in runs)


def test_a_sweep_without_work_starts_no_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    carry_out(small(), tmp_path)
    sweep_runs([small()], tmp_path, jobs=2, title="test")
    assert capsys.readouterr().out == ""


def test_what_breaks_down_does_not_stop_the_runs_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = Trainer.run

    def break_first(self: Trainer) -> Any:
        if self.config.seed == 1:
            raise NotFiniteError("step 3: the loss is not finite")
        return train(self)

    monkeypatch.setattr(Trainer, "run", break_first)
    runs = [small(1), small(2)]
    train_in_turn(runs, tmp_path, data=None, processes=Processes(), display=Display.on_terminal())
    assert list(load(tmp_path)) == [runs[1]]
    assert f"{runs[0].slug}: step 3: the loss is not finite" in capsys.readouterr().out


def test_only_runs_whose_model_is_wanted_keep_checkpoints(tmp_path: Path) -> None:
    run = small()
    carry_out(run, tmp_path)
    assert not (run_folder(tmp_path, codec().name(run)) / "checkpoints").exists()
    assert POLICY.keep_best
    assert not SMALL_RUNS.keep_best
