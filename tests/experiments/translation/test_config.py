"""What a translation task is as a value, and which records it takes."""

from typing import Any

import pytest

from fastweights.experiments.translation.config import TranslationConfig
from fastweights.models.translator import TranslatorConfig

TASK = TranslationConfig(TranslatorConfig(300))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"joined": 0}, "joined: expected at least 1, got 0"),
        ({"beams": 0}, "beams: expected at least 1, got 0"),
    ],
)
def test_bad_values_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TranslationConfig(TranslatorConfig(300), **changes)


def test_how_a_model_is_measured_makes_no_other_run() -> None:
    assert TranslationConfig(TranslatorConfig(300), beams=1, length_penalty=1.0, corpus="x") == TASK
