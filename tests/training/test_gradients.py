"""The gradient of a step is that of the mean loss over the whole batch, clipped, and nothing in it is not finite."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_run import MODEL, TASK, TRAINING, tiny_task
from torch import nn

from fastweights.feature_maps import EluPlusOne
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.training.config import TrainingConfig
from fastweights.training.distributed import Processes
from fastweights.training.gradients import GradientComputation, TaskLoss
from fastweights.training.task import Share

PLAIN = replace(TASK, model=replace(MODEL, dropout=0.0, attention=FastWeightAttentionConfig(feature_map=EluPlusOne())))


def computation(training: TrainingConfig, *, checked: bool = True) -> GradientComputation:
    task = tiny_task(training, PLAIN)
    loss = TaskLoss(task, task.build().train())
    return GradientComputation(loss, training, Processes(), checked)


def gradients(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: x.grad.clone() for name, x in module.named_parameters() if x.grad is not None}


def whole_batch(training: TrainingConfig, step: int = 0) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradient of the whole batch at once, without clipping."""
    found = computation(training)
    batch = found.task.batch(step, Share())
    loss, _ = found.loss(batch, None)
    loss.backward()
    return float(loss.detach()), gradients(found.loss)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_parts_together_have_the_gradient_of_the_whole_batch(parts: int) -> None:
    training = replace(TRAINING, accumulation=parts, clip_norm=None)
    found = computation(training)
    step = found(0, [None] * parts)
    loss, expected = whole_batch(training)
    assert step.trouble is None
    assert step.loss == pytest.approx(loss, rel=1e-6)
    assert step.norm == pytest.approx(math.sqrt(sum(float(x.square().sum()) for x in expected.values())), rel=1e-5)
    for name, gradient in gradients(found.loss).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)
    assert [len(states[0].weights) for states in step.carried if states is not None] == [4 // parts] * parts


def test_gradients_are_clipped_and_their_norm_is_that_before() -> None:
    training = replace(TRAINING, accumulation=1, clip_norm=0.01)
    found = computation(training)
    step = found(0, [None])
    _, expected = whole_batch(training)
    norm = math.sqrt(sum(float(x.square().sum()) for x in expected.values()))
    assert norm > 0.01
    assert step.norm == pytest.approx(norm, rel=1e-5)
    clipped = gradients(found.loss)
    for name, gradient in clipped.items():
        torch.testing.assert_close(gradient, expected[name] * 0.01 / norm, rtol=1e-3, atol=1e-8)


def test_without_clipping_nobody_asks_for_the_norm_of_what_is_not_checked() -> None:
    assert computation(replace(TRAINING, accumulation=1, clip_norm=None), checked=False)(0, [None]).norm == 0.0
    assert computation(replace(TRAINING, accumulation=1), checked=False)(0, [None]).norm > 0


def test_a_process_has_its_own_shares() -> None:
    task = tiny_task(TRAINING, PLAIN)
    shares = [
        GradientComputation(TaskLoss(task, task.build()), TRAINING, Processes(rank, 2), checked=True).share(part)
        for rank in range(2)
        for part in range(2)
    ]
    assert shares == [Share(number, 4) for number in range(4)]


@pytest.mark.parametrize(("bad", "message"), [(math.nan, "the loss is nan"), (math.inf, "the loss is inf")])
def test_a_loss_that_is_not_finite_is_trouble_and_changes_no_state(bad: float, message: str) -> None:
    found = computation(TRAINING)
    before = found(0, [None, None]).carried
    found.loss.register_forward_hook(lambda module, given, result: (result[0] * bad, result[1]))
    step = found(1, before)
    assert step.trouble == message
    assert step.carried is before
    assert math.isnan(step.loss)


def test_a_memory_that_overflows_is_trouble() -> None:
    found = computation(TRAINING)

    def overflow(module: nn.Module, given: Any) -> None:
        raise FloatingPointError("the fast weights overflowed")

    found.loss.register_forward_pre_hook(overflow)
    assert found(0, [None, None]).trouble == "the fast weights overflowed"


def test_unchecked_what_is_not_finite_goes_through() -> None:
    found = computation(replace(TRAINING, accumulation=1, clip_norm=None), checked=False)
    found.loss.register_forward_hook(lambda module, given, result: (result[0] * math.nan, result[1]))
    step = found(0, [None])
    assert step.trouble is None
    assert math.isnan(step.loss)
    assert any(bool(x.isnan().any()) for x in gradients(found.loss).values())
