"""How far back a carried memory helps: read from records, in the order of the words."""

import math

from fastweights.experiments.language_models.memory_span import memory_spans, span_figure
from fastweights.experiments.language_models.presets import PRESETS, for_text, words_of
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


def test_each_text_has_a_panel() -> None:
    records = {
        for_text(PRESETS[f"{size}-linear-delta-nopos-carried"], words_of(size), "text"): Record({}, RESULT, {}, {})
        for size in ("cpu", "cpu-long")
    }
    assert list(memory_spans(records, "cpu-long")) == ["linear-delta-nopos-carried"]
    figure = span_figure(records)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.figure.axes] == ["WikiText-2", "Europarl"]
    assert span_figure({}) is None


def test_models_of_other_sizes_and_without_a_reach_are_left_out() -> None:
    large = for_text(PRESETS["medium-linear-delta-nopos-carried"], 267_735, "text")
    without = {name: value for name, value in RESULT.items() if name != "reach"}
    truncated = for_text(PRESETS["cpu-linear-delta"], 33_278, "text")
    assert memory_spans({large: Record({}, RESULT, {}, {}), truncated: Record({}, without, {}, {})}) == {}
