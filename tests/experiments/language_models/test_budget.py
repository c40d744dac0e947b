"""The table of thirty million words: its runs, what stands in it and what does not, verdicts text by text."""

from pathlib import Path

import pytest

from budget_records import record, run_of
from fastweights.experiments.language_models import budget
from fastweights.experiments.language_models.table2 import TABLE
from fastweights.experiments.options import ReproduceOptions
from shown_figures import drawings_of, tables_of


def test_deciding_models_come_first_and_have_three_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "on_text", lambda presets, options: [run_of(preset) for preset in presets])
    monkeypatch.setattr(budget, "OTHER_RATES", {})
    runs = budget.runs(ReproduceOptions(data="x"))
    assert len(set(runs)) == len(runs) == budget.coverage({}).wanted
    assert [run.preset for run in runs[:8]] == [f"cpu-long-{name}" for name in budget.DECIDING]
    assert {run.preset.removeprefix("cpu-long-") for run in runs if run.training.seed == 2} == set(budget.DECIDING)
    monkeypatch.setitem(budget.OTHER_RATES, "transformer", 5e-4)
    assert budget.runs(ReproduceOptions(data="x", seeds=(1111,)))[-1] == run_of("cpu-long-transformer", rate=5e-4)
    assert budget.coverage({}).wanted == len(runs) + 1


def test_what_it_needs_is_said() -> None:
    with pytest.raises(ValueError, match="europarl-en cannot be downloaded"):
        budget.runs(ReproduceOptions())
    with pytest.raises(ValueError, match="this table has one size"):
        budget.runs(ReproduceOptions(data="x", quick=True))


def test_another_text_is_refused(text: Path) -> None:
    with pytest.raises(ValueError, match=r"book.txt: this text has \d+ words; tables .* are about europarl-en"):
        budget.runs(ReproduceOptions(data=str(text)))


def test_seeds_stand_together_and_rates_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(budget.OTHER_RATES, "linear-delta", 5e-4)
    records = {
        run_of("cpu-long-transformer-xl"): record(100.0),
        run_of("cpu-long-transformer-xl", 2): record(500.0),
        run_of("cpu-long-transformer-relative"): record(120.0),
        run_of("cpu-long-linear-delta", 1111): record(110.0),
        run_of("cpu-long-linear-delta", 1): record(114.0, seconds=1800.0),
        run_of("cpu-long-linear-delta", rate=5e-4): record(105.0),
        # A rate that nobody chose, and a run on the other text: neither is counted.
        run_of("cpu-long-linear-delta", rate=3e-3): record(1.0),
        run_of("cpu-linear-delta"): record(1.0),
    }
    table = tables_of(budget, records)[0]
    rows = {row[:2]: row[2:] for row in table.rows}
    assert rows == {
        ("Linear, delta rule", "0.002"): ("1,000", "112.0 ± 2.8", "112.0 ± 2.8", "-8.3 %", "+10.0 %", "45 min", "2"),
        ("Linear, delta rule", "0.0005"): ("1,000", "105.0", "105.0", "-12.5 %", "+5.0 %", "60 min", "1"),
        ("Transformer-XL", "0.002"): (
            "1,000",
            "300.0 ± 282.8",
            "300.0 ± 282.8",
            "-16.7 %",
            "+0.0 ± 0.0 %",
            "60 min",
            "2",
        ),
        ("Transformer-XL, truncated", "0.002"): ("1,000", "120.0", "120.0", "+0.0 %", "+20.0 %", "60 min", "1"),
    }
    assert len(budget.coverage(records).found) == 6
    by_position = tables_of(budget, records)[3]
    assert [row[0] for row in by_position.rows] in (
        [],
        ["Linear, delta rule", "Linear, delta rule, learning rate 0.0005"],
    )


def test_each_text_has_verdicts_of_its_own() -> None:
    records = {
        run_of("cpu-transformer"): record(200.0),
        run_of("cpu-linear-delta"): record(190.0),
        run_of("cpu-long-transformer"): record(80.0),
        run_of("cpu-long-linear-delta"): record(90.0),
    }
    table = tables_of(budget, records)[1]
    assert table.columns[2:] == ("WikiText-2, 5,120,000 words", "Europarl, 14,991,360 words")
    row = next(row for row in table.rows if row[0].startswith("In windows of a few hundred words"))
    assert row[1] == "holds"
    assert row[2].startswith("does not hold: cpu: transformer 200.0, linear-delta 190.0")
    assert row[3].startswith("holds: cpu-long: transformer 80.0, linear-delta 90.0")


def test_every_text_has_a_table_of_its_own() -> None:
    records = {run_of("cpu-transformer"): record(200.0), run_of("cpu-long-transformer"): record(80.0)}
    small, _, debates = TABLE.contents(records)
    assert small.columns[-2:] == ("valid, ours, cpu", "test, ours, cpu")
    assert debates.columns[-2:] == ("valid, ours, cpu-long", "test, ours, cpu-long")
    assert small.rows[0][-2:] == ("200.0", "200.0")
    assert debates.rows[0][-2:] == ("80.0", "80.0")
    assert debates.caption.startswith("Perplexity per word on Europarl")


def test_without_records_there_is_nothing() -> None:
    assert [table.rows for table in tables_of(budget, {})] == [(), (), (), (), ()]
    assert drawings_of(budget, {}) == []
