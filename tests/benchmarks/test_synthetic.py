"""The benchmark of the synthetic experiments measures what it says."""

import torch
from benchmarks.record import SpeedRecord
from benchmarks.synthetic import CASES, SyntheticCase, SyntheticMeasurement, table


def test_a_line_has_the_time_of_a_step_and_of_each_evaluation() -> None:
    case = SyntheticCase("capacity", "softmax", "sum", 5)
    measured = SyntheticMeasurement(torch.get_num_threads(), 0.001, (case,)).run()
    assert measured["times"].keys() == {f"capacity, softmax, sum, 5: {what}" for what in ("step", "published", "text")}
    assert all(0 < timed["best"] < 60 for parts in measured["times"].values() for timed in parts.values())


def test_a_step_stands_beside_that_of_the_published_code() -> None:
    label = CASES[0].label
    times = {f"{label}: step": {"step": {"best": 0.0053}}, f"{label}: text": {"evaluation": {"best": 0.25}}}
    record = SpeedRecord("full", "", "", {}, {"synthetic": {"threads": 2, "times": times}})
    assert table(record).rows == [(label, "5.3", "53", "10.0 ×", "250", "–")]


def test_the_published_times_are_among_the_cases() -> None:
    published = {(case.model, case.rule, case.num_keys): case.published for case in CASES if case.published is not None}
    assert published == {
        ("dpfp1", "delta", 20): 53,
        ("dpfp1", "delta", 100): 562,
        ("dpfp1", "delta", 200): 2824,
        ("dpfp3", "sum", 300): 103,
        ("dpfp3", "sum", 600): 366,
    }
