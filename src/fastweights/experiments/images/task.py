"""Training on episodes of pictures with labels that change."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from typing_extensions import override

from fastweights.data.episodes import places_of_digits
from fastweights.data.images import ImageSet
from fastweights.data.marked import MarkedSteps
from fastweights.experiments.images.config import ImagesConfig
from fastweights.experiments.images.image_memory import can_be_untrained, measure_memory
from fastweights.experiments.marked_steps import MarkedStepsTask
from fastweights.files import Json
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.sequence_classifier import PictureEmbedding, SequenceClassifier
from fastweights.runs.display import Display
from fastweights.training.config import TrainingConfig
from fastweights.training.random_numbers import seed_for

VALIDATION_SHARE = 1 / 6


class ImagesTask(MarkedStepsTask):
    """Episodes are drawn for every step from the training pictures; the tests have pictures of their own."""

    unit = "episode"

    def __init__(self, config: ImagesConfig, training: TrainingConfig, images: ImageSet) -> None:
        super().__init__(training)
        self.config, self.images = config, images
        kept = round(len(images.train) * VALIDATION_SHARE)
        self.train = images.train.part(slice(0, len(images.train) - kept))
        self.validation = images.train.part(slice(len(images.train) - kept, None))
        for part in (self.train, self.validation, images.test):
            places_of_digits(part)

    @override
    def model(self) -> SequenceClassifier:
        config, pixels = self.config, self.train.pixels.shape[1]
        embedding = PictureEmbedding(pixels, config.episodes.classes, config.hidden_dim, config.model.model_dim)
        return SequenceClassifier(config.model, embedding, config.episodes.classes)

    @override
    def batch_of(self, step: int) -> MarkedSteps:
        random = np.random.default_rng(seed_for("training episodes", self.training.seed, step))
        return self.config.episodes.draw(self.train, self.training.batch_size, 1, random)

    @override
    def tests(self) -> Mapping[str, MarkedSteps]:
        episodes, rows, seed = self.config.episodes, self.config.test_rows, self.training.seed
        random = np.random.default_rng(seed_for("validation episodes", seed))
        found = {"valid": episodes.draw(self.validation, rows, 1, random)}
        for times in self.config.times:
            random = np.random.default_rng(seed_for("test episodes", seed, times))
            found[f"x{times}"] = episodes.draw(self.images.test, rows, times, random)
        return found

    @override
    def summary(self, evaluations: Sequence[Json]) -> Json:
        return {**super().summary(evaluations), "data": self.images.digest}

    @override
    def measure(self, folder: Path, device: torch.device, display: Display) -> Json:
        """What the memory holds of test pictures without any training; null for an attention that has to learn."""
        attention = self.config.model.attention
        if not can_be_untrained(attention):
            return {"image_memory": None}
        assert isinstance(attention, FastWeightAttentionConfig)
        pictures = torch.from_numpy(self.images.test.pixels)
        return {"image_memory": measure_memory(attention, pictures, self.training.seed)}
