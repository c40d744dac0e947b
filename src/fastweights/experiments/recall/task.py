"""Training on words and bindings: every batch is drawn afresh."""

from collections.abc import Mapping

import numpy as np
from torch import nn
from typing_extensions import override

from fastweights.data.marked import MarkedSteps
from fastweights.experiments.marked_steps import MarkedStepsTask
from fastweights.experiments.recall.config import RecallConfig
from fastweights.models.sequence_classifier import SequenceClassifier
from fastweights.training.config import TrainingConfig
from fastweights.training.random_numbers import seed_for


class RecallTask(MarkedStepsTask):
    """Sequences of a problem, drawn for every step; the tests are drawn once and are never trained on."""

    def __init__(self, config: RecallConfig, training: TrainingConfig) -> None:
        super().__init__(training)
        self.config, self.label_smoothing = config, config.label_smoothing

    @override
    def model(self) -> SequenceClassifier:
        problem, model = self.config.problem, self.config.model
        return SequenceClassifier(model, nn.Embedding(problem.num_tokens, model.model_dim), problem.num_classes)

    @override
    def batch_of(self, step: int) -> MarkedSteps:
        random = np.random.default_rng(seed_for("training sequences", self.training.seed, step))
        return self.config.problem.draw(self.training.batch_size, 1, random)

    @override
    def tests(self) -> Mapping[str, MarkedSteps]:
        return {
            name: self.config.problem.draw(self.config.test_rows, times, self._test_numbers(times))
            for name, times in self.config.tests.items()
        }

    def _test_numbers(self, times: int) -> np.random.Generator:
        return np.random.default_rng(seed_for("test sequences", self.training.seed, times))
