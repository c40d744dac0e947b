"""What a translation task is as a value, and which records it takes."""

from typing import Any

import pytest

from fastweights.experiments.translation.config import TranslationConfig
from fastweights.models.translator import TranslatorConfig
from fastweights.training.config import TrainingConfig

TASK = TranslationConfig(TranslatorConfig(300))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smoothing": 1.0}, "smoothing: expected a share below 1"),
        ({"longest": 1}, "longest: expected at least 2"),
        ({"beams": 0}, "beams: expected at least 1"),
        ({"target": "en"}, "target: expected another language"),
        ({"source": "e n"}, "language: expected a name such as en or de"),
    ],
)
def test_bad_values_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TranslationConfig(TranslatorConfig(300), **changes)


def test_how_a_model_is_measured_makes_no_other_run() -> None:
    assert TranslationConfig(TranslatorConfig(300), beams=1, length_penalty=1.0, corpus="x") == TASK


def test_a_task_needs_pairs() -> None:
    with pytest.raises(ValueError, match="data: a translator needs the pairs"):
        TASK.open(TrainingConfig(1, 1), None)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"scores": []}, "'scores' is not a table of test sets"),
        ({"scores": {"val": {"chrf": 3.0}}}, "'result' has no BLEU of val"),
        ({"scores": {"val": {"bleu": 3.0, "statistics": [[1]]}}}, "'statistics' of val are not"),
    ],
)
def test_corrupted_results_are_refused(result: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TASK.check_result(result)


def test_a_result_without_scores_is_not_measured() -> None:
    TASK.check_result({})
    assert not TASK.is_measured({})
    assert TASK.is_measured({"scores": {}})
