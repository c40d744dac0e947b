"""Learning rates."""

import math

import pytest

from fastweights.training.schedule import WarmupCosine


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
