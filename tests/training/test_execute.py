"""Carrying a run from its configuration to its result, from wherever it was stopped."""

import json
import math
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_run import MODEL, TASK, TRAINING, rows, tiny_task
from toy_task import CODEC, LineConfig, LineTask

from fastweights.experiments.families import codec
from fastweights.files import exclusive
from fastweights.kernels import products
from fastweights.models.attention import SoftmaxAttentionConfig
from fastweights.models.language_model import LanguageModel
from fastweights.runs.checkpoint import checkpoints, newest_checkpoint
from fastweights.runs.directory import InUseError
from fastweights.runs.display import Display, RunStatus
from fastweights.runs.record import Record
from fastweights.training import loop
from fastweights.training.config import CheckpointPolicy, TrainingConfig
from fastweights.training.distributed import Processes
from fastweights.training.execute import Execution, load_model_of, one_thread_if
from fastweights.training.loop import Ending
from fastweights.training.run import Run
from fastweights.training.stopping import Stopping
from fastweights.training.task import Evaluation

LINE = Run(
    LineConfig(),
    TrainingConfig(
        steps=30, batch_size=8, learning_rate=0.1, schedule="constant", warmup_steps=0, log_every=None, evaluate_every=5
    ),
    preset="line",
)
TINY = Run(TASK, replace(TRAINING, steps=9), preset="tiny")
CONTINUE = CheckpointPolicy(when_not_finite="continue", keep_best=False, save_every_steps=3)


def draw(path: Path, run: Run = LINE, **options: Any) -> tuple[Record | None, Ending | None]:
    """Carry out a run of the line."""
    return Execution(CODEC, **options).record(run, LineTask(run.task, run.training), path)  # type: ignore[arg-type]


def carry(path: Path, run: Run = TINY, **options: Any) -> tuple[Record | None, Ending | None]:
    """Carry out a run of the tiny language model."""
    measured = options.pop("measured", True)
    task = tiny_task(run.training, run.task)  # type: ignore[arg-type]
    return Execution(codec(), **options).record(run, task, path, measured=measured)


def everything(path: Path) -> dict[str, Any]:
    """All that must not depend on how often a run was interrupted."""
    result = json.loads((path / "result.json").read_text())
    del result["seconds"], result["core_seconds"]
    return {"result": result, **{name: (path / name).read_text() for name in ("config.json", "metrics.jsonl")}}


def test_what_a_run_leaves_behind(tmp_path: Path) -> None:
    record, ending = carry(tmp_path / "deep" / "run")
    path = tmp_path / "deep" / "run"
    assert ending is not None
    assert (ending.reason, ending.signal, ending.finished) == ("limit", None, True)
    names = {"config.json", "environment.json", "metrics.jsonl", "result.json", "vocabulary.json", "source.json"}
    assert names <= {file.name for file in path.iterdir()} <= {*names, "checkpoints", ".lock", "tensorboard"}
    assert codec().from_plain(json.loads((path / "config.json").read_text())) == TINY
    result = json.loads((path / "result.json").read_text())
    losses = {row["step"]: row["valid_loss"] for row in rows(path) if "valid_loss" in row}
    assert sorted(losses) == [7, 9]
    assert (result["best_loss"], result["steps"]) == (min(losses.values()), 9)
    assert result["best_step"] == min(losses, key=lambda step: losses[step])
    assert result["last_loss"] == rows(path)[-2]["loss"]
    assert result["valid_perplexity"] == pytest.approx(math.exp(result["best_loss"]))
    assert result["parameters"] == sum(x.numel() for x in LanguageModel(MODEL).parameters())
    assert record is not None
    assert record.result["valid"]["loss"] == pytest.approx(result["best_loss"], rel=1e-5)
    assert record.config == json.loads((path / "config.json").read_text())
    assert "valid" not in result


def test_the_environment_names_versions_but_no_place(tmp_path: Path) -> None:
    draw(tmp_path / "run")
    text = (tmp_path / "run" / "environment.json").read_text()
    environment = json.loads(text)
    assert environment["packages"]["torch"] == torch.__version__
    assert environment["threads"] == 1
    assert "commit" in environment
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text


def test_a_task_of_which_only_the_curve_is_wanted_leaves_no_checkpoint(tmp_path: Path) -> None:
    record, _ = draw(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} - {".lock"} == {
        "config.json",
        "environment.json",
        "metrics.jsonl",
        "result.json",
    }
    assert record is not None
    assert record.curve["step"] == [5, 10, 15, 20, 25, 30]
    assert set(record.curve) == {"step", "loss", "twice", "train_loss"}
    assert record.result["last_twice"] == record.curve["twice"][-1]
    assert record.result["best_loss"] < 0.1
    # What a process left that was killed as the run ended goes with the next start.
    (tmp_path / "checkpoints" / "step-000030").mkdir(parents=True)
    draw(tmp_path)
    assert not (tmp_path / "checkpoints").exists()


def test_a_finished_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = draw(tmp_path)
    monkeypatch.setattr(loop.Trainer, "run", lambda _: pytest.fail("trained again"))
    again, ending = draw(tmp_path)
    assert ending is None
    assert again == first


def test_without_measuring_the_record_holds_what_training_left(tmp_path: Path) -> None:
    record, _ = carry(tmp_path, measured=False)
    assert record is not None
    assert not TINY.task.is_measured(record.result)
    measured, ending = carry(tmp_path)
    assert ending is None
    assert measured is not None
    assert TINY.task.is_measured(measured.result)
    assert {**measured.result, **record.result} == measured.result


@pytest.mark.parametrize("carried_out", [draw, carry])
def test_interrupted_again_and_again_it_ends_the_same(tmp_path: Path, carried_out: Callable[..., Any]) -> None:
    through, _ = carried_out(tmp_path / "through")
    for stop_at in (0, 1, 3, 2):
        calls = iter(range(1000))
        record, ending = carried_out(tmp_path / "stopped", interrupted=lambda: next(calls) >= stop_at)  # noqa: B023
        assert record is None
        assert (ending.reason, ending.finished) == (None, False)
        assert not (tmp_path / "stopped" / "result.json").exists()
        found = newest_checkpoint(tmp_path / "stopped" / "checkpoints").checkpoint
        assert (0 if found is None else found.step) == ending.progress.step
    assert ending.progress.step == 6
    with (tmp_path / "stopped" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 7, "loss": 1')  # as a process leaves it that is killed while it writes
    record, _ = carried_out(tmp_path / "stopped")
    assert everything(tmp_path / "stopped") == everything(tmp_path / "through")
    assert record.curve == through.curve


def test_a_signal_ends_it_with_its_number(tmp_path: Path) -> None:
    class Signalling(Display):
        def update(self, status: RunStatus) -> None:
            signal.raise_signal(signal.SIGTERM)

    record, ending = draw(tmp_path, display=Signalling())
    assert record is None
    assert ending is not None
    assert ending.signal == signal.SIGTERM
    assert draw(tmp_path)[0] is not None


def test_a_run_ends_by_its_rules(tmp_path: Path) -> None:
    solved, _ = draw(tmp_path / "solved", replace(LINE, stopping=Stopping(target=1e9)))
    assert solved is not None
    assert (solved.result["stopped_because"], solved.result["steps"]) == ("solved", 5)


def test_progress_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_REPORTS", 0.0)
    told: list[RunStatus] = []

    class Noting(Display):
        def update(self, status: RunStatus) -> None:
            told.append(status)

    draw(tmp_path, display=Noting())
    assert [status.step for status in told] == list(range(1, 31))
    assert all(math.isfinite(status.loss) and status.steps_per_second > 0 for status in told)
    assert told[0].valid_loss is None
    assert told[-1].valid_loss is not None


def test_lines_between_evaluations_are_not_taken_for_evaluations(tmp_path: Path) -> None:
    run = replace(LINE, training=replace(LINE.training, log_every=2))
    task = LineTask(LineConfig(), run.training)
    record, _ = Execution(CODEC).record(run, task, tmp_path)
    assert record is not None
    assert [row["step"] for row in task.summed[0]] == [5, 10, 15, 20, 25, 30]
    assert all(row.keys() == {"step", "loss", "twice"} for row in task.summed[0])


def test_the_number_of_threads_is_put_back(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        draw(tmp_path)
        assert torch.get_num_threads() == 2
        with one_thread_if(False):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("short", [True, False])
def test_onednn_multiplies_where_mkl_falls_short(short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "mkl_falls_short", lambda: short)
    seen = []
    draw(tmp_path, interrupted=lambda: seen.append(products.are_replaced()) is not None)
    assert set(seen) == {short}
    assert not products.are_replaced()


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    draw(tmp_path)
    with pytest.raises(ValueError, match=r"this folder holds another run; task\.slope: 2\.0 there, 3\.0 asked"):
        draw(tmp_path, replace(LINE, task=LineConfig(slope=3.0)))
    # The name of the preset decides nothing.
    assert draw(tmp_path, replace(LINE, preset="another"))[0] is not None


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    draw(tmp_path)
    with exclusive(tmp_path), pytest.raises(InUseError, match="in use by another process"):
        draw(tmp_path)


@pytest.mark.parametrize(
    ("run", "processes", "message"),
    [
        (
            replace(TINY, task=replace(TASK, model=replace(MODEL, attention=SoftmaxAttentionConfig()))),
            1,
            "without bound",
        ),
        (TINY, 3, "4 rows cannot be shared by 6 parts"),
    ],
)
def test_what_cannot_be_trained_leaves_no_folder(tmp_path: Path, run: Run, processes: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        carry(tmp_path / "run", run, processes=Processes(size=processes))
    assert not (tmp_path / "run").exists()


def test_a_batch_that_cannot_be_shared_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="8 rows cannot be shared by 3 parts"):
        draw(tmp_path / "run", processes=Processes(size=3))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["config.json", "result.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"\x00" * 100])
def test_a_corrupted_file_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    draw(tmp_path, interrupted=lambda: True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name}: corrupted"):
        draw(tmp_path)


class Breaking(LineTask):
    """A line whose loss is infinite or not a number at some steps; the gradients stay finite where it is infinite."""

    bad = math.inf
    steps = (4, 5, 6, 7)

    def loss(self, model: torch.nn.Module, batch: Any, states: Any) -> tuple[torch.Tensor, None]:
        loss, _ = super().loss(model, batch, states)
        if float(batch[0][0, 0]) in self.odd:
            # inf + a finite gradient; NaN times it.
            loss = loss + math.inf if self.bad == math.inf else loss * math.nan
        return loss, None

    @property
    def odd(self) -> set[float]:
        generator = torch.Generator()
        return {float(torch.randn(8, 1, generator=generator.manual_seed(step))[0, 0]) for step in self.steps}

    def evaluate(self, model: torch.nn.Module, step: int, interrupted: Any) -> Evaluation:
        evaluation = super().evaluate(model, step, interrupted)
        return evaluation if step > 10 else Evaluation(math.nan, {"loss": math.nan, "twice": math.inf})


@pytest.mark.parametrize("log_every", [None, 1])
def test_a_loss_that_is_not_finite_is_null_and_the_run_goes_on(tmp_path: Path, log_every: int | None) -> None:
    """For experiments about models that break: saved in the middle, resumed, and in valid JSON."""
    run = replace(LINE, training=replace(LINE.training, log_every=log_every))

    def go(path: Path, **options: Any) -> tuple[Record | None, Ending | None]:
        task = Breaking(LineConfig(), run.training)
        return Execution(CODEC, policy=CONTINUE, **options).record(run, task, path)

    through, ending = go(tmp_path / "through")
    assert ending is not None
    assert ending.finished
    for _ in range(6):
        calls = iter(range(1000))
        _, ending = go(tmp_path / "stopped", interrupted=lambda: next(calls) >= 1)  # noqa: B023
        assert ending is not None
    assert ending.progress.step == 6
    stopped, _ = go(tmp_path / "stopped")
    assert through is not None
    assert stopped is not None
    assert stopped.curve == through.curve
    assert everything(tmp_path / "stopped") == everything(tmp_path / "through")
    evaluations = [row for row in rows(tmp_path / "through") if "twice" in row]
    assert [row["loss"] for row in evaluations[:2]] == [None, None]
    if log_every is None:
        assert [row["train_loss"] is None for row in evaluations] == [True, True, False, False, False, False]


def test_losses_of_training_and_evaluation_are_two_columns(tmp_path: Path) -> None:
    run = replace(LINE, training=replace(LINE.training, log_every=5))
    record, _ = Execution(CODEC).record(run, run.task.open(run.training, None), tmp_path)
    assert record is not None
    assert record.curve["step"] == [step for step in range(5, 31, 5) for _ in "ab"]
    for between, evaluation in (("train_loss", "loss"), ("learning_rate", "twice")):
        assert [loss is None for loss in record.curve[between]] == [False, True] * 6
        assert [loss is None for loss in record.curve[evaluation]] == [True, False] * 6


def test_an_evaluation_that_cannot_be_made_leaves_every_number_empty(tmp_path: Path) -> None:
    class Overflowing(LineTask):
        def evaluate(self, model: torch.nn.Module, step: int, interrupted: Any) -> Evaluation:
            raise FloatingPointError("the memory overflows")

    run = replace(LINE, training=replace(LINE.training, steps=5))
    Execution(CODEC, policy=CONTINUE).record(run, Overflowing(LineConfig(), run.training), tmp_path)
    (row,) = rows(tmp_path)
    assert {name: row[name] for name in ("loss", "twice")} == {"loss": None, "twice": None}


def test_a_model_that_breaks_ends_in_valid_json(tmp_path: Path) -> None:
    class Broken(Breaking):
        bad = math.nan
        steps = tuple(range(4, 1000))

        def evaluate(self, model: torch.nn.Module, step: int, interrupted: Any) -> Evaluation:
            return LineTask.evaluate(self, model, step, interrupted)

    run = replace(LINE, training=replace(LINE.training, steps=900), stopping=Stopping(0.0, patience=11))
    record, ending = Execution(CODEC, policy=CONTINUE).record(run, Broken(LineConfig(), run.training), tmp_path)
    assert ending is not None
    assert ending.reason == "not-finite"
    assert record is not None
    assert (record.result["last_loss"], record.result["steps"]) == (None, 55)
    for name in ("metrics.jsonl", "result.json"):
        assert "NaN" not in (tmp_path / name).read_text()


def test_the_best_or_the_newest_model_is_loaded(tmp_path: Path) -> None:
    carry(tmp_path, policy=CheckpointPolicy(save_every_steps=1, keep_checkpoints=9))
    result = json.loads((tmp_path / "result.json").read_text())
    model = LanguageModel(MODEL)
    assert load_model_of(tmp_path, model).step == result["best_step"]
    newest = load_model_of(tmp_path, model, "newest")
    assert newest.step == 9
    assert not model.training
    assert all(torch.equal(newest.model[name], x) for name, x in model.state_dict().items() if name in newest.model)


def test_a_damaged_checkpoint_is_named_and_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    carry(tmp_path, policy=CheckpointPolicy(save_every_steps=1, keep_checkpoints=9))
    newest = checkpoints(tmp_path / "checkpoints")[0]
    (newest / "model.safetensors").write_bytes(b"")
    assert load_model_of(tmp_path, LanguageModel(MODEL), "newest").step == 8
    assert "step-000009" in capsys.readouterr().err
    assert newest.exists()


def test_a_model_is_loaded_from_its_own_run_alone(tmp_path: Path) -> None:
    other = replace(TINY, training=replace(TINY.training, seed=2))
    with pytest.raises(ValueError, match="there is no checkpoint yet"):
        load_model_of(tmp_path, LanguageModel(MODEL))
    carry(tmp_path / "a", measured=False)
    carry(tmp_path / "b", other, measured=False)
    shutil.rmtree(tmp_path / "b" / "checkpoints")
    shutil.copytree(tmp_path / "a" / "checkpoints", tmp_path / "b" / "checkpoints")
    with pytest.raises(ValueError, match="a checkpoint of another run"):
        load_model_of(tmp_path / "b", LanguageModel(MODEL))
