"""The benchmark of translators: every model agrees with itself in float64 before it is timed."""

import pytest
import torch
from benchmarks.record import SpeedRecord
from benchmarks.timing import Json
from benchmarks.translation import (
    TranslationDecodingMeasurement,
    TranslationTrainingMeasurement,
    document_table,
    table,
)

FEW = ("standard", "linear", "dpfp2-delta")


def record(**measured: Json) -> SpeedRecord:
    return SpeedRecord("full", "", "", {}, {f"translation-{kind} threads1": value for kind, value in measured.items()})


@pytest.mark.slow
def test_every_model_agrees_and_is_timed() -> None:
    measured = TranslationTrainingMeasurement(torch.get_num_threads(), 0.001, FEW).run()
    assert not measured["refused"], measured["errors"]
    assert set(measured["times"]) == set(FEW)
    decoded = TranslationDecodingMeasurement(torch.get_num_threads(), 2, (3, 6), FEW).run()
    shown = table(record(training=measured, decoding=decoded))
    assert [row[0] for row in shown.rows] == list(FEW)
    assert shown.rows[0][3] == "1.00 ×"
    assert all(float(cell) >= 0 for row in shown.rows for cell in row[4:])


@pytest.mark.slow
def test_only_softmax_keeps_more_of_a_longer_document() -> None:
    measured = TranslationDecodingMeasurement(torch.get_num_threads(), 1, (3, 6), FEW).run()
    sizes = {name: {part["bytes"] for part in parts.values()} for name, parts in measured["document"].items()}
    assert {name for name, found in sizes.items() if len(found) > 1} == {"standard"}
    # Two layers of cross- and self-attention, four heads: W of 32 × 32 and z of 32 floats, and the count of steps.
    assert sizes["linear"] == {2 * 2 * (4 * (32 * 32 + 32) * 4 + 8)}
    assert [row[0] for row in document_table(record(decoding=measured)).rows] == list(FEW)
