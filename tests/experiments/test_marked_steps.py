"""The task of answering at marked steps: loss, accuracies by group, and what a record keeps of them."""

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from typing_extensions import override

from fastweights.data.marked import MarkedSteps
from fastweights.experiments.marked_steps import MarkedStepsTask, accuracies, check_accuracies
from fastweights.training.config import TrainingConfig
from fastweights.training.task import Share

TRAINING = TrainingConfig(steps=10, batch_size=4, seed=1)
SEQUENCES = MarkedSteps(
    torch.tensor([[0, 1, 2], [2, 2, 1], [0, 0, 0], [1, 2, 0]]),
    torch.tensor([[0, -1, 2], [1, 2, -1], [-1, -1, 0], [-1, -1, -1]]),
    torch.tensor([[0, 0, 1], [0, 3, 0], [0, 0, 3], [0, 0, 0]]),
)


class Echo(nn.Module):
    """Answers with its input: right where target and input agree."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    @override
    def forward(self, x: Tensor) -> Tensor:
        return self.scale * nn.functional.one_hot(x, 3).float()


class EchoTask(MarkedStepsTask):
    @override
    def model(self) -> nn.Module:
        return Echo()

    @override
    def batch_of(self, step: int) -> MarkedSteps:
        return SEQUENCES

    @override
    def tests(self) -> Mapping[str, MarkedSteps]:
        return {"valid": SEQUENCES.rows(slice(0, 2)), "test": SEQUENCES}


def test_accuracies_are_those_of_the_questions() -> None:
    # Right: 0, 2 of the first row, 2 of the second, 0 of the third; wrong: the first of the second.
    found = accuracies(Echo(), SEQUENCES)
    assert found == {"all": 4 / 5, "0": 1 / 2, "1": 1.0, "3": 1.0}
    assert accuracies(Echo(), SEQUENCES.rows(slice(2, 4))) == {"all": 1.0}, "one group is all"


def test_many_sequences_are_evaluated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = accuracies(Echo(), SEQUENCES)
    monkeypatch.setattr("fastweights.experiments.marked_steps.MOST_STEPS_AT_ONCE", 3)
    assert accuracies(Echo(), SEQUENCES) == whole


def test_the_loss_is_the_mean_over_the_questions_however_they_are_shared() -> None:
    task, model = EchoTask(TRAINING), Echo()
    right = -torch.log_softmax(torch.tensor([2.0, 0.0, 0.0]), 0)
    expected = (4 * right[0] + right[1]) / 5
    assert_close(task.loss(model, task.batch(0, Share()), None)[0], expected)
    shares = [task.loss(model, task.batch(0, Share(part, 2)), None)[0] for part in range(2)]
    assert_close(torch.stack(shares).mean(), expected)


def test_smoothed_targets_give_a_share_to_all_classes_alike() -> None:
    task, model = EchoTask(TRAINING), Echo()
    task.label_smoothing = 0.3
    right = -torch.log_softmax(torch.tensor([2.0, 0.0, 0.0]), 0)
    expected = 0.7 * (4 * right[0] + right[1]) / 5 + 0.3 * right.mean()
    assert_close(task.loss(model, task.batch(0, Share()), None)[0], expected)
    # A score that grows for ever gains nothing: the loss has its minimum where p(answer) = 0.7 + 0.3 / 3.
    best = math.log(0.8 / 0.1)
    everything_right = (MarkedSteps(torch.zeros(1, 1).long(), torch.zeros(1, 1).long(), torch.zeros(1, 1).long()), 1.0)
    losses = []
    for scale in (best - 0.1, best, best + 0.1):
        model.scale.data.fill_(scale)
        losses.append(task.loss(model, everything_right, None)[0].item())
    assert losses[1] < min(losses[0], losses[2])


def test_the_first_test_decides() -> None:
    evaluation = EchoTask(TRAINING).evaluate(Echo(), 5, lambda: False)
    assert evaluation is not None
    assert evaluation.loss == pytest.approx(1 / 4)
    assert evaluation.metrics["valid"] == 3 / 4
    assert evaluation.metrics["test:0"] == 1 / 2
    assert EchoTask(TRAINING).evaluate(Echo(), 5, lambda: True) is None


def test_the_record_has_the_last_of_the_best_evaluations() -> None:
    lines = [
        {"step": 1, "loss": 0.5, "valid": 0.5, "test": 0.9},
        {"step": 2, "loss": 0.0, "valid": 1.0, "test": 0.6, "test:3": 0.5},
        {"step": 3, "loss": 0.0, "valid": 1.0, "test": 0.7, "test:3": 0.6, "train_loss": 1.0},
        {"step": 4, "loss": 0.1, "valid": 0.9, "test": 1.0},
        {"step": 5, "loss": None},
    ]
    found = EchoTask(TRAINING).summary(lines)["accuracies"]
    assert found == {"valid": {"all": 1.0}, "test": {"all": 0.7, "3": 0.6}}
    check_accuracies({"accuracies": found}, ("valid", "test"))


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        ({}, "no 'accuracies'"),
        ({"accuracies": {"valid": {"all": 1.0}}}, "no numbers of the test 'test'"),
        ({"accuracies": {"valid": {"all": 1.0}, "test": {"all": "much"}}}, "no numbers of the test 'test'"),
    ],
)
def test_a_record_without_accuracies_is_refused(result: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_accuracies(result, ("valid", "test"))
