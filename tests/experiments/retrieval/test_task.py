"""Single runs: what they leave behind, when they end, and that a killed one goes on as if nothing had happened."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fastweights.experiments.retrieval.execute import RetrievalRun, execute, preset
from fastweights.experiments.retrieval.execute import execute as retrieval

from fastweights.experiments.retrieval.model import FastWeightRead
from fastweights.experiments.retrieval.task import Progress, Training

TINY = replace(preset("overwriting", "dpfp1", "delta", 4), key_dim=8, evaluate_every=5, max_steps=30, stop_loss=0.0)


def tiny(model: str = "dpfp1", rule: str = "delta") -> RetrievalRun:
    like = preset("overwriting", model, rule, 4)
    return replace(TINY, attention=like.attention, learning_rate=like.learning_rate)


def outcome(directory: Path) -> dict[str, Any]:
    """Everything that must not depend on how often a run was interrupted."""
    result = json.loads((directory / "result.json").read_text())
    del result["seconds"]
    texts = {name: (directory / name).read_text() for name in ("config.json", "metrics.jsonl")}
    return {"result": result, **texts}


def test_what_a_run_leaves_behind(tmp_path: Path) -> None:
    result = execute(TINY, tmp_path / "deep" / "run")
    directory = tmp_path / "deep" / "run"
    names = {path.name for path in directory.iterdir()}
    assert names == {"config.json", "environment.json", "metrics.jsonl", "result.json"}
    assert RetrievalRun.from_dict(json.loads((directory / "config.json").read_text())) == TINY
    assert json.loads((directory / "result.json").read_text()) == result
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
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


def test_the_environment_names_versions_but_no_place(tmp_path: Path) -> None:
    execute(replace(TINY, max_steps=1), tmp_path / "run")
    text = (tmp_path / "run" / "environment.json").read_text()
    environment = json.loads(text)
    assert environment["packages"]["torch"] == torch.__version__
    assert environment["threads"] == 1
    assert "commit" in environment
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    result = execute(replace(preset("overwriting", "dpfp1", "delta", 20), max_steps=200), tmp_path)
    assert result["best_loss"] < 0.05


def test_a_finished_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = execute(TINY, tmp_path)
    monkeypatch.setattr(Training, "advance", lambda _: pytest.fail("trained again"))
    assert execute(TINY, tmp_path) == first


def test_nothing_is_left_of_a_run_that_was_killed_as_it_ended(tmp_path: Path) -> None:
    execute(TINY, tmp_path, should_stop=lambda: True)
    checkpoint = (tmp_path / "checkpoint.safetensors").read_bytes()
    execute(TINY, tmp_path)
    files = {path.name for path in tmp_path.iterdir()}
    for name in ("checkpoint.safetensors", ".checkpoint.safetensors.partial"):
        (tmp_path / name).write_bytes(checkpoint)
    execute(TINY, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == files


class Killed(BaseException):
    """Stands for a process that ends without any warning."""


def killing(after: int) -> Callable[[Training], None]:
    advance, steps = Training.advance, 0

    def step(self: Training) -> None:
        nonlocal steps
        steps += 1
        if steps > after:
            raise Killed
        advance(self)

    return step


@pytest.mark.parametrize(
    ("model", "rule"), [("dpfp1", "delta"), ("favor64", "sum"), ("softmax", "sum"), ("tanh", "schlag2021")]
)
def test_killed_again_and_again_it_ends_the_same(
    model: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny(model, rule)
    execute(run, tmp_path / "through")
    monkeypatch.setattr(retrieval, "STEPS_BETWEEN_SAVES", 3)
    moments, interruptions = random.Random(1), 0
    while not (tmp_path / "killed" / "result.json").exists():
        with monkeypatch.context() as patch:
            patch.setattr(Training, "advance", killing(moments.randint(0, 9)))
            try:
                execute(run, tmp_path / "killed")
            except Killed:
                interruptions += 1
    assert interruptions > 3
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "through")


def test_asked_to_stop_it_leaves_a_checkpoint_and_goes_on(tmp_path: Path) -> None:
    execute(TINY, tmp_path / "through")
    for stop_at in (0, 1, 7, 12):
        calls = iter(range(1000))
        result = execute(TINY, tmp_path / "stopped", should_stop=lambda: next(calls) >= stop_at)  # noqa: B023
        assert result["stopped_because"] == "interrupted"
        assert not (tmp_path / "stopped" / "result.json").exists()
        assert (tmp_path / "stopped" / "checkpoint.safetensors").exists()
    assert result["steps"] == 20
    execute(TINY, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "through")


def test_lines_after_the_checkpoint_are_not_kept(tmp_path: Path) -> None:
    execute(TINY, tmp_path / "through")
    calls = iter(range(1000))
    execute(TINY, tmp_path / "stopped", should_stop=lambda: next(calls) >= 12)
    with (tmp_path / "stopped" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 15, "loss": 1')
    execute(TINY, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "through")


def test_the_number_of_threads_is_put_back(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        execute(replace(TINY, max_steps=1), tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "SECONDS_BETWEEN_REPORTS", 0.0)
    told: list[tuple[int, float, float]] = []
    execute(TINY, tmp_path, on_progress=lambda *report: told.append(report))
    assert [step for step, _, _ in told] == list(range(1, 31))
    assert all(math.isfinite(loss) and rate > 0 for _, loss, rate in told)


def curve(*losses: float | None) -> Progress:
    rows = [{"step": 100 * (i + 1), "loss": loss} for i, loss in enumerate(losses)]
    return Progress(step=100 * len(losses), curve=rows)


@pytest.mark.parametrize(
    ("progress", "reason"),
    [
        (Progress(), None),
        (curve(0.5), None),
        (curve(0.5, 0.001), "solved"),
        (curve(0.5, 0.00101), None),
        (curve(*[0.5] * 11), None),
        # The first evaluation is a new minimum; eleven more are not.
        (curve(*[0.5] * 12), "patience"),
        (curve(*[0.5] * 11, 0.4), None),
        (curve(*[0.5] * 11, 0.4, *[0.4] * 10), None),
        (curve(*[0.5] * 11, 0.4, *[0.4] * 11), "patience"),
        (curve(*[None] * 10), None),
        # Not-a-number is never a minimum, not even the first.
        (curve(*[None] * 11), "not-finite"),
        (curve(*[0.5 - i / 1e4 for i in range(1000)]), "limit"),
    ],
)
def test_when_a_run_ends(progress: Progress, reason: str | None) -> None:
    assert progress.reason_to_stop(preset("capacity", "dpfp1", "sum", 20)) == reason


def test_a_run_that_is_not_finite_says_so_in_valid_json(tmp_path: Path) -> None:
    run = replace(TINY, learning_rate=1e30, max_steps=1000, attention=FastWeightRead())
    result = execute(run, tmp_path)
    assert result["stopped_because"] == "not-finite"
    assert result["last_loss"] is None
    for name in ("metrics.jsonl", "result.json"):
        assert "NaN" not in (tmp_path / name).read_text()


def test_a_directory_of_another_run_is_refused(tmp_path: Path) -> None:
    execute(replace(TINY, max_steps=1), tmp_path)
    with pytest.raises(ValueError, match=r"config\.json: belongs to another run"):
        execute(replace(TINY, max_steps=2), tmp_path)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file, a directory is needed"):
        execute(TINY, tmp_path / "file")


@pytest.mark.parametrize("name", ["config.json", "result.json", "checkpoint.safetensors"])
@pytest.mark.parametrize("content", [b"", b"{", b"\x00" * 100])
def test_a_corrupted_file_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    execute(TINY, tmp_path, should_stop=lambda: True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=name):
        execute(TINY, tmp_path)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    execute(TINY, tmp_path / "one", should_stop=lambda: True)
    other = replace(TINY, seed=2)
    execute(other, tmp_path / "other", should_stop=lambda: True)
    checkpoint = "checkpoint.safetensors"
    (tmp_path / "one" / checkpoint).write_bytes((tmp_path / "other" / checkpoint).read_bytes())
    with pytest.raises(ValueError, match="belongs to another run"):
        execute(TINY, tmp_path / "one")
