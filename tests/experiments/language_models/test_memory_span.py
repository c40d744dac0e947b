"""How far back a carried memory helps: read from records, in the order of the words."""

import math

from fastweights.experiments.language_models.memory_span import memory_spans, span_figure
from fastweights.experiments.language_models.presets import PRESETS, for_text
from fastweights.runs.record import Record

RESULT = {
    "best_loss": 1.0,
    "last_loss": 1.0,
    "steps": 1,
    "valid": {"loss": math.log(180), "tokens": 50_000, "context": ""},
    "test": {"loss": math.log(170), "tokens": 50_000, "context": ""},
    "reach": {"1024": math.log(190), "256": math.log(210)},
}


def test_spans_end_with_the_whole_text() -> None:
    run = for_text(PRESETS["cpu-linear-delta-nopos-carried"], 33_278, "text")
    (span,) = memory_spans({run: Record({}, RESULT, {}, {})}).values()
    assert list(span) == [256, 1024, 50_000]
    assert [round(perplexity) for perplexity in span.values()] == [210, 190, 180]
    assert span_figure({"linear-delta-nopos-carried": span}).name == "reach"


def test_models_of_other_sizes_and_without_a_reach_are_left_out() -> None:
    large = for_text(PRESETS["medium-linear-delta-nopos-carried"], 267_735, "text")
    without = {name: value for name, value in RESULT.items() if name != "reach"}
    truncated = for_text(PRESETS["cpu-linear-delta"], 33_278, "text")
    assert memory_spans({large: Record({}, RESULT, {}, {}), truncated: Record({}, without, {}, {})}) == {}
