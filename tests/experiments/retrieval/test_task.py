"""Single retrieval runs: what they leave, when they end, and that a killed one goes on as if nothing had happened."""

import json
import math
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fastweights.experiments.carry_out import SMALL_RUNS
from fastweights.experiments.families import codec
from fastweights.experiments.retrieval.presets import STOPPING, preset
from fastweights.runs.checkpoint import newest_checkpoint
from fastweights.runs.display import Display, RunStatus
from fastweights.training import loop
from fastweights.training.config import CheckpointPolicy
from fastweights.training.execute import Execution
from fastweights.training.loop import Ending, Trainer
from fastweights.training.progress import TrainingProgress
from fastweights.training.run import Run

SETTINGS = ("key_dim=8", "evaluate_every=5", "max_steps=30", "stop_loss=0.0")
TINY = codec().changed(preset("overwriting", "dpfp1", "delta", 4), SETTINGS)


def execute(
    run: Run,
    folder: Path,
    interrupted: Callable[[], bool] = lambda: False,
    policy: CheckpointPolicy = SMALL_RUNS,
    display: Display | None = None,
) -> Ending | None:
    """Carry out a run as sweeps do."""
    task = run.task.open(run.training, None)
    execution = Execution(codec(), policy=policy, display=display or Display(), interrupted=interrupted)
    return execution.record(run, task, folder)[1]


def result_of(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def outcome(folder: Path) -> dict[str, Any]:
    """Everything that must not depend on how often a run was interrupted."""
    result = result_of(folder)
    del result["seconds"], result["core_seconds"]
    texts = {name: (folder / name).read_text() for name in ("config.json", "metrics.jsonl")}
    return {"result": result, **texts}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


def test_what_a_run_leaves_behind(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    execute(TINY, folder)
    assert names_in(folder) == {"config.json", "environment.json", "metrics.jsonl", "result.json"}
    assert codec().from_plain(json.loads((folder / "config.json").read_text())) == TINY
    result = result_of(folder)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [5, 10, 15, 20, 25, 30]
    assert all(row.keys() == {"step", "loss", "train_loss", "text", "published"} for row in rows)
    assert all(row["loss"] == row["text"] != row["published"] for row in rows)
    losses = [row["loss"] for row in rows]
    assert (result["best_loss"], result["last_loss"], result["steps"]) == (min(losses), losses[-1], 30)
    assert result["best_step"] == rows[losses.index(min(losses))]["step"]
    assert result["stopped_because"] == "limit"
    published = [row["published"] for row in rows]
    assert result["protocols"]["published"]["best_loss"] == min(published)
    assert result["protocols"]["published"]["last_loss"] == published[-1]


def test_a_protocol_of_ones_own_decides_beside_the_two_known_ones(tmp_path: Path) -> None:
    run = codec().changed(TINY, ["protocol.sequences=3"])
    execute(run, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert all(row["loss"] not in (row["text"], row["published"]) for row in rows)
    assert result_of(tmp_path)["best_loss"] == min(row["loss"] for row in rows)


def test_the_environment_names_versions_but_no_place(tmp_path: Path) -> None:
    execute(codec().changed(TINY, ["max_steps=1"]), tmp_path / "run")
    text = (tmp_path / "run" / "environment.json").read_text()
    environment = json.loads(text)
    assert environment["packages"]["torch"] == torch.__version__
    assert environment["threads"] == 1
    assert "commit" in environment
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    execute(codec().changed(preset("overwriting", "dpfp1", "delta", 20), ["max_steps=200"]), tmp_path)
    assert result_of(tmp_path)["best_loss"] < 0.05


def test_a_finished_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(TINY, tmp_path)
    first = outcome(tmp_path)
    monkeypatch.setattr(Trainer, "run", lambda _: pytest.fail("trained again"))
    assert execute(TINY, tmp_path) is None
    assert outcome(tmp_path) == first


def test_nothing_is_left_of_a_run_that_was_killed_as_it_ended(tmp_path: Path) -> None:
    calls = iter(range(1000))
    execute(TINY, tmp_path / "run", interrupted=lambda: next(calls) >= 12)
    shutil.copytree(tmp_path / "run" / "checkpoints", tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir())
    execute(TINY, tmp_path / "run")
    files = names_in(tmp_path / "run")
    shutil.copytree(tmp_path / "kept", tmp_path / "run" / "checkpoints", dirs_exist_ok=True)
    (tmp_path / "run" / "checkpoints" / ".step-30.partial").mkdir()
    (tmp_path / "run" / ".result.json.123").write_text("{")
    execute(TINY, tmp_path / "run")
    assert names_in(tmp_path / "run") == files


class Killed(BaseException):
    """Stands for a process that ends without any warning."""


def killing(after: int) -> Callable[[Trainer], None]:
    train_step, steps = Trainer.train_step, 0

    def step(self: Trainer) -> None:
        nonlocal steps
        steps += 1
        if steps > after:
            raise Killed
        train_step(self)

    return step


@pytest.mark.parametrize(
    ("model", "rule"), [("dpfp1", "delta"), ("favor64", "sum"), ("softmax", "sum"), ("tanh", "schlag2021")]
)
def test_killed_again_and_again_it_ends_the_same(
    model: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = codec().changed(preset("overwriting", model, rule, 4), (*SETTINGS, "batch_size=32"))
    execute(run, tmp_path / "through")
    moments, interruptions = random.Random(1), 0
    while not (tmp_path / "killed" / "result.json").exists():
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "train_step", killing(moments.randint(0, 9)))
            try:
                execute(run, tmp_path / "killed", policy=replace(SMALL_RUNS, save_every_steps=3))
            except Killed:
                interruptions += 1
    assert interruptions > 3
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "through")


def test_asked_to_stop_it_leaves_a_checkpoint_and_goes_on(tmp_path: Path) -> None:
    execute(TINY, tmp_path / "through")
    steps = 0
    for stop_at in (0, 1, 7, 12):
        calls = iter(range(1000))
        ending = execute(TINY, tmp_path / "stopped", interrupted=lambda: next(calls) >= stop_at)  # noqa: B023
        assert ending is not None
        assert not ending.finished
        assert not (tmp_path / "stopped" / "result.json").exists()
        steps += stop_at
        assert ending.progress.step == steps
        saved = newest_checkpoint(tmp_path / "stopped" / "checkpoints").checkpoint
        assert (saved.step if saved else 0) == steps
    assert steps == 20
    execute(TINY, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "through")


def stopped_at(run: Run, folder: Path, step: int = 12) -> Path:
    """A run that was asked to stop after so many steps; the path of its checkpoint."""
    calls = iter(range(1000))
    execute(run, folder, interrupted=lambda: next(calls) >= step)
    (checkpoint,) = (folder / "checkpoints").iterdir()
    return checkpoint


def test_lines_after_the_checkpoint_are_not_kept(tmp_path: Path) -> None:
    execute(TINY, tmp_path / "through")
    stopped_at(TINY, tmp_path / "stopped")
    with (tmp_path / "stopped" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 15, "loss": 1')
    execute(TINY, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "through")


def test_the_number_of_threads_is_put_back(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        execute(codec().changed(TINY, ["max_steps=1"]), tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


class Telling(Display):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[RunStatus] = []

    def update(self, status: RunStatus) -> None:
        self.told.append(status)


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_REPORTS", 0.0)
    display = Telling()
    execute(TINY, tmp_path, display=display)
    assert [status.step for status in display.told] == list(range(1, 31))
    assert all(math.isfinite(status.loss) and status.steps_per_second > 0 for status in display.told)


def after(*losses: float | None) -> TrainingProgress:
    """The progress of a run after evaluations with these losses, one every 100 steps."""
    progress = TrainingProgress()
    for loss in losses:
        progress.step += 100
        progress.note_evaluation(loss)
    return progress


@pytest.mark.parametrize(
    ("progress", "reason"),
    [
        (TrainingProgress(), None),
        (after(0.5), None),
        (after(0.5, 0.001), "solved"),
        (after(0.5, 0.00101), None),
        (after(*[0.5] * 11), None),
        # The first evaluation is a new minimum; eleven more are not.
        (after(*[0.5] * 12), "patience"),
        (after(*[0.5] * 11, 0.4), None),
        (after(*[0.5] * 11, 0.4, *[0.4] * 10), None),
        (after(*[0.5] * 11, 0.4, *[0.4] * 11), "patience"),
        (after(*[None] * 10), None),
        # Not-a-number is never a minimum, not even the first.
        (after(*[None] * 11), "not-finite"),
        (after(*[0.5 - i / 1e4 for i in range(1000)]), "limit"),
    ],
)
def test_when_a_run_ends(progress: TrainingProgress, reason: str | None) -> None:
    assert STOPPING.reason(progress, 100_000) == reason


def test_a_run_that_is_not_finite_says_so_in_valid_json(tmp_path: Path) -> None:
    run = codec().changed(TINY, ["learning_rate=1e30", "max_steps=1000"])
    execute(run, tmp_path)
    result = result_of(tmp_path)
    assert result["stopped_because"] == "not-finite"
    assert result["last_loss"] is None
    for name in ("metrics.jsonl", "result.json"):
        assert "NaN" not in (tmp_path / name).read_text()


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    execute(codec().changed(TINY, ["max_steps=1"]), tmp_path)
    with pytest.raises(ValueError, match=r"this folder holds another run; training.steps: 1 there, 2 asked"):
        execute(codec().changed(TINY, ["max_steps=2"]), tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="expected a folder for the run, this is a file"):
        execute(TINY, tmp_path / "file")


@pytest.mark.parametrize("name", ["config.json", "result.json"])
@pytest.mark.parametrize("content", [b"", b"{", bytes(9)])
def test_a_corrupted_file_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    stopped_at(TINY, tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=name):
        execute(TINY, tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "optim.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("content", [b"", b"{", bytes(9)])
def test_a_corrupted_checkpoint_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    checkpoint = stopped_at(TINY, tmp_path)
    assert (checkpoint / name).exists()
    (checkpoint / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"no good checkpoint is left: {checkpoint}.*{name}"):
        execute(TINY, tmp_path)


def test_behind_a_corrupted_checkpoint_an_earlier_one_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(TINY, tmp_path / "through")
    calls = iter(range(1000))
    policy = replace(SMALL_RUNS, save_every_steps=3)
    execute(TINY, tmp_path / "stopped", interrupted=lambda: next(calls) >= 12, policy=policy)
    newest = max((tmp_path / "stopped" / "checkpoints").iterdir())
    (newest / "model.safetensors").write_bytes(b"")
    execute(TINY, tmp_path / "stopped", display=Display.on_terminal())
    assert f"{newest / 'model.safetensors'}: 0 bytes" in capsys.readouterr().out
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "through")


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    own = stopped_at(TINY, tmp_path / "one")
    foreign = stopped_at(codec().changed(TINY, ["seed=2"]), tmp_path / "other")
    shutil.rmtree(own)
    shutil.copytree(foreign, own)
    with pytest.raises(ValueError, match="a checkpoint of another run"):
        execute(TINY, tmp_path / "one")
