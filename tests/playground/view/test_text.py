"""Numbers and messages inside a page."""

from fastweights.playground.view.text import LONGEST, SMALLEST, number, problem


def test_rounding_is_shown_as_zero_with_all_digits_for_programs() -> None:
    assert number(SMALLEST / 2, "x") == '<span data-name="x" data-value="2.5e-07">0</span>'
    assert number(-2.0, "x").endswith(">−2</span>")
    assert number(float("nan"), "x") == '<span data-name="x" data-value="">–</span>'


def test_a_message_can_be_sent_whatever_it_quotes() -> None:
    assert "\\ud800 &lt;b&gt;" in problem("expected a name, got \ud800 <b>")
    assert len(problem("x" * 100_000)) < LONGEST + 100
