"""A text on the page: every token is a button with its surprise, and what came from the text is escaped."""

import pytest
import torch

from fastweights.playground.reading import Erasure, Occupancy, TextReading
from fastweights.playground.view.reading import memory_view, shown, token_view, tokens_view

READING = TextReading(
    "<b> x",
    (0, 1, 2),
    ("<b>", " ", "x"),
    (None, 2.5, 30.0),
    ("layer 0",),
    (torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]),),
    ((), (), (Erasure(0.75, 0, "layer 0", 1),)),
    (Occupancy("layer 0", ((1, 1.0), (3, 1.5)), ((1, 2.0), (2, 2.5), (3, 2.25))),),
)


def test_tokens_are_buttons_and_their_text_is_escaped() -> None:
    html = tokens_view(READING, 2)
    assert html.count("<button") == 3
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert 'data-token="1" aria-pressed="false" tabindex="-1" data-value="2.5"' in html
    assert html.count('tabindex="0"') == 1
    assert 'data-name="mean-surprise" data-value="16.25"' in html


def test_a_token_shows_every_strength_and_what_it_erased() -> None:
    html = token_view(READING, 2)
    assert f'data-name="beta-0-1" data-value="{torch.tensor(0.6).item()!r}"' in html
    assert 'data-name="erased-0" data-value="0.75"' in html
    assert "<b>&lt;b&gt;</b> (position 0)" in html
    assert "Nothing of any token before it" in token_view(READING, 0)
    with pytest.raises(ValueError, match="from 0 to 2, got 3"):
        token_view(READING, 3)


def test_occupancy() -> None:
    html = memory_view(READING)
    assert 'data-name="rank-0" data-value="1.5"' in html
    assert 'data-name="size-0" data-value="2.25"' in html
    assert html.count("<polyline") == 2


def test_a_space_can_be_seen() -> None:
    assert shown("  ") == "␣␣"
    assert shown("\n") == "⏎"
