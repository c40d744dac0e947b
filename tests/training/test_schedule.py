"""Learning rates."""

import math

import pytest

from fastweights.training.schedule import SCHEDULES, Constant, InverseSquareRoot, WarmupCosine


def test_the_rate_rises_to_the_peak_and_falls_along_a_cosine() -> None:
    schedule = WarmupCosine(2.0, 10, 100)
    assert schedule(1) == pytest.approx(0.2)
    assert schedule(10) == 2.0
    assert schedule(50) == pytest.approx(1.0)
    assert schedule(75) == pytest.approx(1 + math.cos(0.75 * math.pi))
    assert schedule(100) == pytest.approx(0.0)
    assert schedule(101) == pytest.approx(0.0)


def test_no_warm_up_starts_on_the_cosine() -> None:
    assert WarmupCosine(1.0, 0, 4)(1) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)


def test_a_constant_rate_only_warms_up() -> None:
    schedule = Constant(2.0, 10, 100)
    assert [schedule(update) for update in (1, 5, 10, 11, 1000)] == pytest.approx([0.2, 1.0, 2.0, 2.0, 2.0])
    assert Constant(1e-3, 0, 100)(1) == 1e-3


def test_the_inverse_square_root_peaks_where_the_warm_up_ends() -> None:
    schedule = InverseSquareRoot(2.0, 100, 10_000)
    assert [schedule(update) for update in (1, 50, 100, 400, 10_000)] == pytest.approx([0.02, 1.0, 2.0, 1.0, 0.2])
    assert InverseSquareRoot(1.0, 0, 10)(4) == pytest.approx(0.5)


def test_every_schedule_has_a_name() -> None:
    assert {"cosine": WarmupCosine, "constant": Constant, "inverse-square-root": InverseSquareRoot} == SCHEDULES
