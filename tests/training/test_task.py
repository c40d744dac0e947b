"""What a task has to say, and what it need not: the smallest one trains, resumes and is refused what it has not."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_run import TASK, TRAINING, tiny_task
from toy_task import LineConfig, LineTask

from fastweights.runs.directory import RunDirectory
from fastweights.training.config import CheckpointPolicy, TrainingConfig
from fastweights.training.loop import Trainer
from fastweights.training.task import Share

LINE = TrainingConfig(steps=12, batch_size=8, learning_rate=0.1, warmup_steps=0, log_every=1, evaluate_every=4)


@pytest.mark.parametrize("parts", [1, 2, 4, 8])
def test_shares_are_equal_and_cover_the_batch(parts: int) -> None:
    rows = [row for part in range(parts) for row in range(8)[Share(part, parts).of(8)]]
    assert rows == list(range(8))
    assert {len(range(8)[Share(part, parts).of(8)]) for part in range(parts)} == {8 // parts}


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ValueError, match="batch_size: 8 rows cannot be shared by 3 parts"):
        Share(0, 3).of(8)
    assert Share().of(5) == slice(0, 5)


def test_what_a_task_need_not_say() -> None:
    task = LineTask(LineConfig(), LINE)
    model = task.build()
    assert task.initial_states(model, 3) is None
    assert task.starts_anew(5)
    assert (task.epoch(5), task.place(5), task.shown(1.0), task.files()) == (0, "step 6", {}, {})
    assert task.rows(0, Share(1, 2)) != task.rows(0, Share(0, 2))
    config = LineConfig()
    assert config.slug == ""
    assert config.is_measured({})
    assert config.cost(LINE) == 12
    config.check_result({})
    with pytest.raises(ValueError, match="LineConfig: runs of this task keep no model"):
        config.empty_model()


def losses(path: Path, training: TrainingConfig, stop_at: int | None = None) -> list[float]:
    task = LineTask(LineConfig(), training)
    with RunDirectory.claim(path, {}, {}) as directory:
        trainer = Trainer(task, task.build(), training, directory, policy=CheckpointPolicy(save_every_steps=1))
        if stop_at is not None:
            trainer.interrupted = lambda: trainer.progress.step == stop_at
        trainer.run()
        return [line["train_loss"] for line in directory.lines() if "learning_rate" in line]


def test_the_smallest_task_learns_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    whole = losses(tmp_path / "whole", LINE)
    assert whole[-1] < whole[0] / 2
    for stop_at in (3, 4, 11):
        losses(tmp_path / "parts", LINE, stop_at)
    assert losses(tmp_path / "parts", LINE) == whole


def test_the_smallest_task_accumulates(tmp_path: Path) -> None:
    whole = losses(tmp_path / "whole", LINE)
    assert losses(tmp_path / "parts", replace(LINE, accumulation=4)) == pytest.approx(whole, rel=1e-5)


def test_a_language_model_says_where_a_step_is() -> None:
    """82 words in a column: ten segments of 8 and one of 1."""
    task = tiny_task()
    assert task.place(13) == "step 14 (epoch 1, segment 2)"
    assert [task.epoch(step) for step in (0, 10, 11)] == [0, 0, 1]
    assert [task.starts_anew(step) for step in (0, 1, 11)] == [True, False, True]
    assert tiny_task(task=replace(TASK, carry_state=False)).starts_anew(1)
    assert list(task.rows(0, Share(1, 2))) == [2, 3]
    assert task.units(0) == 32


def test_a_batch_follows_from_the_step_alone() -> None:
    task = tiny_task()
    whole = task.batch(5, Share())
    parts = [task.batch(5, Share(part, 2)) for part in range(2)]
    assert torch.equal(torch.cat([part.inputs for part in parts]), whole.inputs)
    assert torch.equal(task.batch(5, Share()).targets, whole.targets)


def test_the_initial_model_follows_from_the_seed_alone() -> None:
    models = [tiny_task(replace(TRAINING, seed=seed)).build() for seed in (1, 1, 2)]
    weights = [model.state_dict()["blocks.0.attention.output.weight"] for model in models]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_states_are_carried_only_where_the_task_says_so() -> None:
    task = tiny_task()
    states = task.initial_states(task.build(), 3)
    assert states is not None
    assert [len(state.weights) for state in states] == [3, 3]
    truncated = tiny_task(task=replace(TASK, carry_state=False))
    assert truncated.initial_states(truncated.build(), 3) is None


def test_a_text_of_another_digest_is_refused() -> None:
    with pytest.raises(ValueError, match="another text or vocabulary"):
        tiny_task(task=replace(TASK, text="other"))
