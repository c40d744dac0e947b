"""Capacity on the page."""

from fastweights.playground.capacity import hold
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.view.capacity import capacity_view

CHOICES = (MemoryChoice("sum", "identity", "l2"), MemoryChoice("delta", "identity", "l2"))


def test_losses_pictures_and_the_bound() -> None:
    html = capacity_view(CHOICES, 9, 1.0)
    for choice in CHOICES:
        assert f'data-name="loss" data-value="{hold(choice, 9, 1.0).loss!r}"' in html
    assert "rank bound, d_dot = 8" in html
    assert html.count("<polyline") == 3
    assert html.count("<img") == 27  # what was written, and what each memory retrieves


def test_what_cannot_be_says_why() -> None:
    assert "can be negative" in capacity_view((MemoryChoice("sum", "tanh", "attention"),), 4, 1.0)
