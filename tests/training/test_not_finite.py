"""A loss or gradient that is not finite: it never reaches the weights, and stops the run or is skipped."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_run import TRAINING, losses, rows, train, trainer

from fastweights.runs.checkpoint import newest_checkpoint
from fastweights.runs.directory import RunDirectory
from fastweights.training.config import CheckpointPolicy
from fastweights.training.loop import NotFiniteError, Trainer
from fastweights.training.task import Evaluation

STEPS = 14
SKIP = CheckpointPolicy(when_not_finite="skip")


class Poison:
    """Makes one number of one step NaN or infinite: in the loss or in a gradient."""

    def __init__(self, run: Trainer, where: str, value: float, step: int, part: int = 1) -> None:
        self.run, self.where, self.value, self.step, self.part, self.calls = run, where, value, step, part, 0
        original = run.loss.model.losses

        def losses(hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            found = original(hidden, targets)
            if not run.model.training:
                return found
            self.calls += 1
            if (self.calls - 1) // 2 == step and (self.calls - 1) % 2 == part:
                if where == "loss":
                    return found * value
                found.register_hook(lambda gradient: gradient * value)
            return found

        run.loss.model.losses = losses  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of a run in which nothing happens."""
    folder = tmp_path_factory.mktemp("clean")
    train(folder, replace(TRAINING, steps=STEPS))
    return losses(folder)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("step", [0, 11])
def test_what_is_not_finite_stops_the_run_before_the_weights(
    tmp_path: Path, clean: list[float], where: str, value: float, step: int
) -> None:
    training = replace(TRAINING, steps=STEPS)
    with RunDirectory.claim(tmp_path / "run", {}, {}) as directory:
        run = trainer(directory, training)
        Poison(run, where, value, step)
        with pytest.raises(NotFiniteError, match=rf"step {step + 1} \(epoch .* the weights were not changed"):
            run.run()
    assert all(bool(parameter.isfinite().all()) for parameter in run.model.parameters())
    found = newest_checkpoint(tmp_path / "run" / "checkpoints").checkpoint
    assert (0 if found is None else found.step) == step
    # Without the poison the run goes on as if nothing had been.
    with RunDirectory.claim(tmp_path / "run", {}, {}) as directory:
        trainer(directory, training).run()
    assert losses(tmp_path / "run") == clean


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("step", [3, 11])
def test_a_step_that_is_skipped_is_as_if_it_had_not_been(tmp_path: Path, where: str, step: int) -> None:
    training, said = replace(TRAINING, steps=14), []
    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory, training, policy=SKIP, say=said.append)
        Poison(run, where, math.nan, step)
        seen: dict[int, Any] = {}
        original = run.gradients

        def looking(number: int, states: Any) -> Any:
            seen[number] = ([parameter.detach().clone() for parameter in run.model.parameters()], states)
            return original(number, states)

        run.gradients = looking  # type: ignore[assignment]
        assert run.run().finished
    assert all(torch.equal(x, y) for x, y in zip(seen[step][0], seen[step + 1][0], strict=True))
    if step == 11:
        # It was the first of an epoch: what the last epoch carried does not belong to what follows.
        assert seen[step + 1][1] == [None, None]
    else:
        assert seen[step + 1][1] is seen[step][1]
    assert [row["step"] for row in rows(tmp_path) if "skipped" in row] == [step + 1]
    assert len(said) == 1
    assert said[0].startswith(f"step {step + 1} ")
    assert all(math.isfinite(loss) for loss in losses(tmp_path))
    assert len(losses(tmp_path)) == 13


def test_skipping_without_end_is_given_up(tmp_path: Path) -> None:
    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory, replace(TRAINING, steps=400), policy=SKIP, say=lambda line: None)
        for parameter in run.model.parameters():
            parameter.data.fill_(math.nan)
        with pytest.raises(NotFiniteError, match=r"step 100 .* after 99 skipped steps; step 99: .* nothing was saved"):
            run.run()
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_an_overflowing_memory_is_a_step_that_is_not_finite(tmp_path: Path) -> None:
    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory)

        def overflow(*given: Any) -> None:
            raise FloatingPointError("the fast weights overflowed")

        run.model.register_forward_pre_hook(lambda module, given: overflow() if module.training else None)
        with pytest.raises(NotFiniteError, match=r"step 1 .*: the fast weights overflowed; training stops here"):
            run.run()


def test_gradients_that_overflow_on_their_way_are_a_step_that_is_not_finite(tmp_path: Path) -> None:
    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory, replace(TRAINING, steps=8), policy=SKIP, say=lambda line: None)
        with torch.no_grad():
            for block in run.model.blocks:
                block.attention.output.weight *= 30
                block.attention.projection.weight *= 30
        Poison(run, "gradient", 1e36, step=3)
        assert run.run().finished
    (skipped,) = (row for row in rows(tmp_path) if "skipped" in row)
    assert skipped["step"] == 4
    assert skipped["skipped"].startswith("the gradient norm is")


def test_a_memory_that_is_not_finite_is_not_carried_on_though_the_loss_is(tmp_path: Path) -> None:
    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory, replace(TRAINING, steps=8), policy=SKIP, say=lambda line: None)
        calls: list[int] = []

        def overflow(module: Any, given: Any, found: Any) -> Any:
            calls.append(0)
            loss, states = found
            return (
                (loss, [replace(state, weights=state.weights * math.inf) for state in states])
                if len(calls) == 6
                else None
            )

        run.loss.register_forward_hook(overflow)
        assert run.run().finished
    assert [(row["step"], row["skipped"]) for row in rows(tmp_path) if "skipped" in row] == [
        (3, "the carried memory is not finite")
    ]
    assert len(losses(tmp_path)) == 7


def test_a_validation_that_is_not_finite_is_noted_and_never_the_best(tmp_path: Path) -> None:
    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory, replace(TRAINING, steps=6, evaluate_every=2))
        answers = iter([2.0, math.nan, math.inf])
        run.task.evaluate = lambda *given: Evaluation(loss := next(answers), {"valid_loss": loss})  # type: ignore[method-assign]
        ending = run.run()
    assert [row["valid_loss"] for row in rows(tmp_path) if "valid_loss" in row] == [2.0, None, None]
    assert (ending.progress.best_step, ending.progress.best_loss) == (2, 2.0)


def test_a_validation_in_which_the_memory_overflows_is_noted_and_the_run_goes_on(tmp_path: Path) -> None:
    said: list[str] = []

    def overflow(*given: Any) -> Evaluation:
        raise FloatingPointError("the memory overflowed")

    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory, replace(TRAINING, steps=4, evaluate_every=2), say=said.append)
        run.task.evaluate = overflow  # type: ignore[method-assign]
        ending = run.run()
    assert ending.finished
    assert [row["valid_loss"] for row in rows(tmp_path) if "valid_loss" in row] == [None, None]
    assert "step 2: no validation loss, the memory overflowed" in said
