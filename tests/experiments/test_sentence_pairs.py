"""What every translator's task refuses, whichever family it belongs to."""

from typing import Any

import pytest

from fastweights.experiments.documents.config import DocumentsConfig
from fastweights.experiments.sentence_pairs import SentencePairsConfig
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.models.translator import Translator, TranslatorConfig
from fastweights.training.config import TrainingConfig

both = pytest.mark.parametrize("family", [TranslationConfig, DocumentsConfig])


@both
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smoothing": 1.0}, "smoothing: expected a share below 1, got 1.0"),
        ({"smoothing": -0.1}, "smoothing: expected a share below 1, got -0.1"),
        ({"longest": 1}, "longest: expected at least 2 tokens, got 1"),
        ({"target": "en"}, "target: expected another language"),
        ({"source": "e n"}, "language: expected a name such as en or de"),
    ],
)
def test_bad_values_are_named(family: type[SentencePairsConfig], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        family(TranslatorConfig(300), **changes)


@both
def test_a_task_needs_pairs(family: type[SentencePairsConfig]) -> None:
    with pytest.raises(ValueError, match=f"data: {family.needs_data}"):
        family(TranslatorConfig(300)).open(TrainingConfig(1, 1), None)


@both
def test_the_empty_model_is_that_of_the_configuration(family: type[SentencePairsConfig]) -> None:
    model = family(TranslatorConfig(300, model_dim=16, num_heads=2)).empty_model()
    assert isinstance(model, Translator)
    assert model.config == TranslatorConfig(300, model_dim=16, num_heads=2)
