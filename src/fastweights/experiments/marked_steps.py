"""Training a model to answer at marked steps: the one task behind recall, question answering and labels of images."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from fastweights.data.marked import NOTHING, MarkedSteps
from fastweights.files import Json
from fastweights.runs.record import is_number
from fastweights.training.carried_state import States
from fastweights.training.config import TrainingConfig
from fastweights.training.random_numbers import seed_for
from fastweights.training.task import Evaluation, Interrupted, Share, Task

Accuracies = Mapping[str, Mapping[str, float]]
"""For every test, the share of right answers of all questions ("all") and of those of each group, by its number."""
MOST_STEPS_AT_ONCE = 1 << 15
"""Steps of sequences that are evaluated together."""


Batch = tuple[MarkedSteps, float]
"""A share of a step, and by what the sum of its losses is multiplied, so that the shares of a step have its mean."""


class MarkedStepsTask(Task[Batch]):
    """L = -1/N Σ ((1 - ε) log p(answer) + ε mean_c log p(c)) over the N questions of a batch; ε is `label_smoothing`.

    A subclass says what the model is (`model`), what a batch is (`batch_of`), and what is tested (`tests`). The first
    of the tests decides which step is best and when training stops: its loss is the share of wrong answers.
    """

    label_smoothing: float = 0.0

    def __init__(self, training: TrainingConfig) -> None:
        self.training = training

    @abstractmethod
    def model(self) -> nn.Module:
        """A new model, which torch's random numbers initialise."""

    @abstractmethod
    def batch_of(self, step: int) -> MarkedSteps:
        """The whole batch of a step, a function of the seed and the step."""

    @abstractmethod
    def tests(self) -> Mapping[str, MarkedSteps]:
        """Sequences to be evaluated, by the name of the test; a function of the seed."""

    @cached_property
    def prepared_tests(self) -> Mapping[str, MarkedSteps]:
        """The tests, made once."""
        return self.tests()

    @override
    def build(self) -> nn.Module:
        torch.manual_seed(seed_for("model", self.training.seed))
        return self.model()

    @override
    def batch(self, step: int, share: Share) -> Batch:
        whole = self.batch_of(step)
        return whole.rows(share.of(self.training.batch_size)), share.parts / max(int(whole.asked.sum()), 1)

    @override
    def loss(self, model: nn.Module, batch: Batch, states: States | None) -> tuple[Tensor, States | None]:
        sequences, weight = batch
        device = next(model.parameters()).device
        scores, targets = model(sequences.inputs.to(device)), sequences.targets.to(device)
        losses = cross_entropy(
            scores.flatten(0, 1),
            targets.flatten(),
            ignore_index=NOTHING,
            reduction="sum",
            label_smoothing=self.label_smoothing,
        )
        return losses * weight, None

    @override
    @torch.no_grad()
    def evaluate(self, model: nn.Module, step: int, interrupted: Interrupted) -> Evaluation | None:
        """The share of right answers in every test; metrics are called TEST, and TEST:GROUP for the groups."""
        metrics: dict[str, float] = {}
        for name, sequences in self.prepared_tests.items():
            if interrupted():
                return None
            for group, accuracy in accuracies(model, sequences).items():
                metrics[name if group == "all" else f"{name}:{group}"] = accuracy
        loss = 1.0 - metrics[next(iter(self.prepared_tests))]
        return Evaluation(loss, {"loss": loss, **metrics})

    @override
    def metric_names(self) -> tuple[str, ...]:
        return ("loss", *self.prepared_tests)

    @override
    def shown_validation(self, loss: float) -> dict[str, float]:
        return {"accuracy": 1.0 - loss}

    @override
    def summary(self, evaluations: Sequence[Json]) -> Json:
        """The accuracies of the evaluation with the least loss; of several, those of the last one.

        Models that answer every question go on learning to answer those of longer sequences.
        """
        finite = [line for line in evaluations if line.get("loss") is not None]
        best = min(reversed(finite), key=lambda line: float(line["loss"]), default={})
        found: dict[str, dict[str, float]] = {name: {} for name in self.prepared_tests}
        for name, value in best.items():
            test, _, group = name.partition(":")
            if test in found:
                found[test][group or "all"] = value
        return {"accuracies": found}


def check_accuracies(result: Json, needed: Sequence[str]) -> None:
    """Raise a ValueError unless a record's result has the accuracies of these tests."""
    found = result.get("accuracies")
    if not isinstance(found, dict):
        raise ValueError("'result' has no 'accuracies'")
    for test in needed:
        groups = found.get(test)
        if not isinstance(groups, dict) or not all(is_number(value) for value in groups.values()):
            raise ValueError(f"'accuracies' has no numbers of the test {test!r}")


def accuracies(model: nn.Module, sequences: MarkedSteps) -> dict[str, float]:
    """The share of right answers: of all questions, and of every group that has some, unless all are in one."""
    count, steps = sequences.targets.shape
    each = max(1, MOST_STEPS_AT_ONCE // steps)
    right, groups = [], []
    device = next(model.parameters()).device
    for start in range(0, count, each):
        part = sequences.rows(slice(start, start + each))
        answers = model(part.inputs.to(device)).argmax(dim=-1).cpu()
        right.append((answers == part.targets)[part.asked])
        groups.append(part.groups[part.asked])
    is_right, group = torch.cat(right).double(), torch.cat(groups)
    found = {"all": float(is_right.mean())}
    present = group.unique().tolist()
    if len(present) > 1:
        found |= {str(number): float(is_right[group == number].mean()) for number in present}
    return found
