"""What translating documents is as a value, and which records it takes."""

from typing import Any

import pytest

from fastweights.experiments.documents.config import DocumentsConfig
from fastweights.models.translator import TranslatorConfig
from fastweights.training.config import TrainingConfig

TASK = DocumentsConfig(TranslatorConfig(300))
READING = {"loss": 2.0, "bleu": 3.0, "statistics": [[1] * 10], "sums": [1.0], "tokens": [2]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"document": 0}, "document"),
        ({"smoothing": 1.0}, "smoothing: expected a share below 1"),
        ({"longest": 1}, "longest: expected at least 2"),
        ({"target": "en"}, "target: expected another language"),
    ],
)
def test_bad_values_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DocumentsConfig(TranslatorConfig(300), **changes)


def test_a_task_needs_pairs_in_order() -> None:
    with pytest.raises(ValueError, match="data: documents need a folder of sentence pairs in order"):
        TASK.open(TrainingConfig(1, 1), None)


@pytest.mark.parametrize(
    ("readings", "message"),
    [
        ([], "'readings' is not a table"),
        ({"val": 3}, "'readings' is not a table"),
        ({"val": {}}, "'readings' is not a table"),
        ({"val": {"alone": 3}}, "no losses by place of val, alone"),
        ({"val": {"alone": {**READING, "sums": 3}}}, "no losses by place of val, alone"),
        ({"val": {"alone": {**READING, "sums": ["x"]}}}, "no losses by place of val, alone"),
        ({"val": {"alone": {**READING, "bleu": "3"}}}, "'readings' has no bleu of val, alone"),
        ({"val": {"alone": {**READING, "loss": [2]}}}, "'readings' has no loss of val, alone"),
        ({"val": {"alone": {**READING, "statistics": [[1]]}}}, "'statistics' of val are not"),
        ({"val": {"alone": {**READING, "tokens": [2, 3]}}}, "no losses by place of val, alone"),
    ],
)
def test_corrupted_results_are_refused(readings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TASK.check_result({"readings": readings})


def test_a_result_without_readings_is_not_measured() -> None:
    TASK.check_result({})
    TASK.check_result({"readings": {"val": {"alone": READING}}})
    assert not TASK.is_measured({})
    assert not TASK.is_measured({"readings": {}})
    assert TASK.is_measured({"readings": {"val": {"alone": READING}}})
