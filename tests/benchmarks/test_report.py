"""Tables and figures say what the record says."""

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.figure import draw
from benchmarks.generation import GPT2
from benchmarks.language_models import BOUND, PEER
from benchmarks.operators import headline
from benchmarks.record import SpeedRecord
from benchmarks.report import MARKER, details, publish, summary, updated

from benchmarks import decays, feature_maps, generation, language_models, lengths, peak_memory, shortcuts

ENVIRONMENT = {
    "processor": "Abacus",
    "instructions": "BEADS",
    "cores": 2,
    "packages": {"torch": "2.0", "transformers": "5.0"},
}


def times(forward: float, training: float) -> dict[str, dict[str, float]]:
    parts = {"forward": forward, "training": training, "backward": training - forward}
    return {name: {"best": value, "median": value, "repetitions": 3} for name, value in parts.items()}


def make_record(**changes: object) -> SpeedRecord:
    """4 · 8 · 1000 tokens and heads with k = v = 10: 19.2 MFLOP forward, 44.8 MFLOP backward."""
    operator = {
        "case": {"batch": 4, "heads": 8, "steps": 1024, "key_dim": 10, "value_dim": 10},
        "threads": 2,
        "missing": {},
        "errors": {},
        "refused": [],
        "gemm_median": 1.0,
        "gemm": 3 * 6 * 4 * 8 * 1024 * 100.0,
        "times": {"native": times(0.5, 1.0), "transformers": times(5.0, 4.0)},
        **changes,
    }
    return SpeedRecord("quick", "2021-06-09", "abc", ENVIRONMENT, {"operator x": operator})


def test_shares_and_ratios() -> None:
    # Two thirds of the peak forward; backward 14 / 6 of the work in the same half second: 7 / 9 · 2 of it.
    assert headline(make_record()).rows == [
        ("4, 8, 1024, 10, 10", "500 / 1000", "67 %", "156 %", "–", "10.0 × / 4.0 ×", "–")
    ]


def test_time_per_token_is_compared_with_that_of_1024_steps() -> None:
    measured = {"batch": 1, "threads": 1, "times": {"512": times(1.0, 2.0), "1024": times(1.6, 4.0)}}
    record = SpeedRecord("full", "", "", ENVIRONMENT, {"length native": measured})
    assert [(row[0], row[3], row[5]) for row in lengths.table(record).rows] == [
        ("512", "+25 %", "+0 %"),
        ("1024", "+0 %", "+0 %"),
    ]


def test_a_shortcut_is_compared_with_the_call_without_it() -> None:
    one = {"best": 0.002, "median": 0.002, "repetitions": 3}
    measured = {"times": {"a step with": {"call": one}, "a step without": {"call": {**one, "best": 0.005}}}}
    record = SpeedRecord("full", "", "", ENVIRONMENT, {"shortcuts": measured})
    assert shortcuts.table(record).rows == [("a step", "2", "5", "2.5 ×")]


def test_a_map_is_compared_with_its_scan() -> None:
    measured = {"times": {"DPFP-2: map": times(0.002, 0.003), "DPFP-2: scan": times(0.008, 0.04)}}
    record = SpeedRecord("full", "", "", ENVIRONMENT, {"feature maps": measured})
    assert feature_maps.table(record).rows == [("DPFP-2", "2", "8", "25 %", "3", "40", "8 %")]


def test_language_models_are_compared_with_softmax_and_the_peer() -> None:
    seconds = {"softmax": times(0, 4.096), PEER: times(0, 8.192), BOUND: times(0, 2.048)}
    measured = {"length": 256, "threads": 2, "times": seconds}
    record = SpeedRecord("full", "", "", ENVIRONMENT, {"language-model L256": measured})
    assert language_models.table(record).rows == [
        ("softmax", "256", "2", "1,000", "1.0 ×", "2.0 ×", "50 %"),
        (PEER, "256", "2", "500", "0.5 ×", "1.0 ×", "25 %"),
        (BOUND, "256", "2", "2,000", "2.0 ×", "4.0 ×", "100 %"),
    ]


def test_decays_are_compared_with_one_per_head() -> None:
    case = {"batch": 1, "heads": 2, "steps": 3, "key_dim": 4, "value_dim": 5}
    both = {"per head": (0.002, 0.004), "per channel": (0.003, 0.005)}
    seconds = {
        name: {"forward": {"best": x}, "backward": {"best": y}, "training": {"best": x + y}}
        for name, (x, y) in both.items()
    }
    record = SpeedRecord("full", "", "", ENVIRONMENT, {"decay x": {"case": case, "times": seconds}})
    expected = ("b1 h2 t3 k4 v5", "per channel", "3", "5", "8", "1.50 ×", "1.25 ×", "1.33 ×")
    assert decays.table(record).rows[1] == expected


def test_generation_is_compared_with_the_shortest_context() -> None:
    seconds = {"softmax after 100": 0.002, "softmax after 10000": 0.009, f"{GPT2} after 10000": 0.018}
    measured = {
        "bytes": dict.fromkeys(seconds, 3072) | {f"{GPT2} after 10000": 0},
        "times": {name: {"word": {"best": value}} for name, value in seconds.items()},
    }
    record = SpeedRecord("full", "", "", ENVIRONMENT, {"generation": measured})
    assert generation.table(record).rows == [
        ("softmax", "100", "2", "100 %", "–", "3"),
        ("softmax", "10,000", "9", "450 %", "2.0 ×", "3"),
        (GPT2, "10,000", "18", "–", "1.0 ×", "–"),
    ]


def test_memory_has_a_column_per_competitor() -> None:
    case = {"batch": 1, "heads": 2, "steps": 3, "key_dim": 4, "value_dim": 5}
    measured = {"case": case, "competitor": "sdpa", "training": True, "bytes": 3 * 2**20}
    record = SpeedRecord("full", "", "", ENVIRONMENT, {"memory training sdpa": measured})
    assert peak_memory.table(record).rows == [("1, 2, 3", "training", "–", "–", "–", "3")]


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    record = make_record()
    record.write(tmp_path / "speed.json")
    assert SpeedRecord.read(tmp_path / "speed.json") == record


@pytest.mark.parametrize("content", ["{}", '{"format": 7}', "nonsense", "[]"])
def test_a_file_that_is_no_record_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"speed\.json"):
        SpeedRecord.read(path)


def test_only_what_stands_between_the_markers_changes() -> None:
    text = f"before\n{MARKER}\nold\n<!-- end speed -->\nafter\n"
    assert updated(text, "new", Path("x")) == f"before\n{MARKER}\n\nnew\n\n<!-- end speed -->\nafter\n"


def test_missing_markers_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"README\.md: expected '<!-- speed -->'"):
        updated("no markers", "new", Path("README.md"))


def test_wrong_results_are_not_published() -> None:
    with pytest.raises(ValueError, match=r"operator x: native \(error 0\.5\)"):
        publish(make_record(refused=["native"], errors={"native": 0.5}))


def test_a_slow_yardstick_gives_a_disturbance_away() -> None:
    gemms = {
        "a": (1, 50.0, 50.0),
        "b": (2, 99.0, 95.0),
        "c": (2, 100.0, 99.0),
        "d": (2, 99.0, 80.0),
        "e": (2, 70.0, 69.0),
    }
    measured = {
        f"operator {name}": {"threads": threads, "gemm": best, "gemm_median": median}
        for name, (threads, best, median) in gemms.items()
    }
    assert SpeedRecord("full", "", "", ENVIRONMENT, measured).disturbed == ["operator d", "operator e"]


def test_texts_name_machine_and_commit() -> None:
    for text in (summary(make_record()), details(make_record())):
        assert "Abacus" in text
        assert "commit abc" in text


def test_what_was_measured_again_names_its_own_commit_and_processor() -> None:
    record = make_record()
    name, measured = next(iter(record.measurements.items()))
    measurements = {
        name: measured | {"commit": "def"},
        "as before": measured | {"commit": "abc", "processor": "Abacus"},
        "elsewhere": measured | {"commit": "abc", "processor": "Slide rule"},
    }
    record = replace(record, measurements=measurements)
    assert record.later == {"def": [name], "abc on Slide rule": ["elsewhere"]}
    assert f"Measured with commit def: {name}." in details(record)


def test_every_processor_has_a_yardstick_of_its_own() -> None:
    fast, slow = (
        {"threads": 2, "gemm": speed, "gemm_median": speed, "processor": processor}
        for speed, processor in ((100.0, "Abacus"), (50.0, "Slide rule"))
    )
    measured = {"operator a": fast, "operator b": slow, "operator c": slow | {"gemm_median": 40.0}}
    assert SpeedRecord("full", "", "", ENVIRONMENT, measured).disturbed == ["operator c"]


def test_the_same_record_gives_the_same_figure(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        draw(make_record(), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.png").stat().st_size > 10_000
