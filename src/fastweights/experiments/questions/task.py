"""Training on the stories of bAbI: shuffled in every epoch, one sentence a step."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from typing_extensions import override

from fastweights.data.babi import NO_WORD, QuestionTask, StoryVocabulary
from fastweights.data.marked import MarkedSteps
from fastweights.experiments.marked_steps import MarkedStepsTask
from fastweights.experiments.questions.config import QuestionsConfig
from fastweights.files import Json
from fastweights.models.sequence_classifier import SentenceEmbedding, SequenceClassifier
from fastweights.training.config import TrainingConfig
from fastweights.training.random_numbers import seed_for

VALIDATION_SHARE = 0.1


class QuestionsTask(MarkedStepsTask):
    """Stories of one task; the last tenth of the training stories is not trained on and decides which step is best."""

    unit = "story"

    def __init__(self, config: QuestionsConfig, training: TrainingConfig, stories: QuestionTask) -> None:
        super().__init__(training)
        self.config, self.stories = config, stories
        count = len(stories.train)
        kept = max(1, round(count * VALIDATION_SHARE))
        if training.batch_size > count - kept:
            raise ValueError(f"batch_size: there are {count - kept} stories to train on, got {training.batch_size}")
        for part, which in ((stories.train[:-kept], "to train on"), (stories.train[-kept:], "to validate with")):
            if not any(sentence.answer for story in part for sentence in story):
                raise ValueError(f"bAbI: there is no question in the {len(part)} stories {which}")
        self.vocabulary = StoryVocabulary.of(stories.train)
        self.train = self.vocabulary.encode(stories.train[:-kept])
        self.validation = self.vocabulary.encode(stories.train[-kept:])

    @override
    def model(self) -> SequenceClassifier:
        vocabulary, model = self.vocabulary, self.config.model
        embedding = SentenceEmbedding(len(vocabulary.words) + 1, vocabulary.longest, model.model_dim)
        return SequenceClassifier(model, embedding, len(vocabulary.answers))

    @override
    def batch_of(self, step: int) -> MarkedSteps:
        """The next stories of the epoch's order; what is left of an epoch after its last whole batch is left out."""
        size = self.training.batch_size
        batches = len(self.train.targets) // size
        seed = seed_for("order of stories", self.training.seed, step // batches)
        order = np.random.default_rng(seed).permutation(len(self.train.targets))
        place = step % batches * size
        chosen = torch.from_numpy(order[place : place + size])
        inputs, targets, groups = (x[chosen] for x in self.train)
        # Steps after the end of the longest of these stories change nothing, and take time.
        steps = int((inputs != NO_WORD).any(dim=2).sum(dim=1).max())
        return MarkedSteps(inputs[:, :steps], targets[:, :steps], groups[:, :steps])

    @override
    def tests(self) -> Mapping[str, MarkedSteps]:
        return {"valid": self.validation, "test": self.vocabulary.encode(self.stories.test)}

    @override
    def epoch(self, step: int) -> int:
        return step // (len(self.train.targets) // self.training.batch_size)

    @override
    def summary(self, evaluations: Sequence[Json]) -> Json:
        return {**super().summary(evaluations), "stories": len(self.train.targets), "data": self.stories.digest}
