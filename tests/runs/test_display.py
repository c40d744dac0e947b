"""What runs and sweeps show while they run."""

import io
import math
import time
from dataclasses import replace

import pytest
from rich.console import Console

from fastweights.runs.display import Display, Running, RunStatus, SweepDisplay, duration, ending, number


def plain_display(total: int = 3, done: int = 1) -> tuple[SweepDisplay, io.StringIO]:
    output = io.StringIO()
    return SweepDisplay(total, done, work=2.0, console=Console(file=output, width=60)), output


def test_without_a_terminal_there_are_plain_lines() -> None:
    display, output = plain_display()
    with display.shown():
        display.start("run-a-0123", Running("run-a"))
        display.update("run-a-0123", step=200, steps=400, loss=0.125, steps_per_second=31.4)
        display.printed -= 11
        display.refresh()
        display.refresh()
        display.finish("run-a-0123", {"best_loss": 0.0009, "steps": 300, "stopped_because": "solved"}, work=1.0)
    lines = output.getvalue().splitlines()
    assert lines[0] == "1 of 3 runs done, time left not known yet"
    assert lines[1].endswith("run-a step 200/400 loss 0.125 (31.4 steps/s)")
    assert lines[2] == "2/3 run-a: best loss 0.0009, 300 steps, solved"
    assert len(lines) == 3
    assert "\x1b" not in output.getvalue()


def test_time_left_follows_the_work_that_is_done() -> None:
    display, _ = plain_display()
    display.started -= 100
    display.finish("x", None, work=0.5)
    assert display.time_left() == "about 5 min left"


def test_time_left_counts_the_runs_at_work() -> None:
    display, _ = plain_display()
    display.started -= 1000
    display.start("new", Running("new", work=1.0))
    display.start("resumed", Running("resumed", work=1.0))
    assert display.time_left() == "time left not known yet"
    display.update("resumed", step=80, steps=100, loss=1.0, steps_per_second=1.0)
    assert display.time_left() == "time left not known yet"
    display.update("new", step=0, steps=100, loss=1.0, steps_per_second=1.0)
    display.update("new", step=40, steps=100, loss=1.0, steps_per_second=1.0)
    display.update("resumed", step=90, steps=100, loss=1.0, steps_per_second=1.0)
    # Half a run in 1000 s, and 0.7 of one is left.
    assert display.time_left() == "about 23 min left"
    assert display.gained == 0.0
    display.finish("resumed", None, work=1.0)
    # What a run had before it was resumed took none of this time: 0.6 in 1200 s, and 0.6 is left.
    assert math.isclose(display.gained, 0.2)
    display.started -= 200
    assert display.time_left() == "about 20 min left"


def test_names_are_not_taken_for_markup() -> None:
    output = io.StringIO()
    display = SweepDisplay(1, 0, 1.0, console=Console(file=output, width=80, force_terminal=True, no_color=True))
    display.start("x", Running("[red]name[/red]"))
    display.console.print(display.render())
    display.say("[bold]line[/bold]")
    assert "[red]name[/red]" in output.getvalue()
    assert "[bold]line[/bold]" in output.getvalue()


def test_a_terminal_gets_a_table() -> None:
    output = io.StringIO()
    display = SweepDisplay(4, 0, 1.0, console=Console(file=output, width=80, force_terminal=True, no_color=True))
    with display.shown():
        display.start("x", Running("some-run"))
        display.update("x", step=7, steps=9, loss=0.5, steps_per_second=12.0)
        display.refresh()
        display.drop("x")
    assert "0 of 4 runs done" in output.getvalue()
    assert "some-run" in output.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (7200, "2.0 h")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_an_ending_without_a_finite_loss() -> None:
    assert ending({"best_loss": None, "steps": 0, "seconds": 3.4}) == "measured in 3 s"
    assert ending({"best_loss": None, "steps": 1100, "stopped_because": "not-finite"}) == (
        "no finite loss, 1100 steps, not-finite"
    )


STATUS = RunStatus(
    step=20,
    steps=100,
    epoch=1,
    loss=2.0,
    units_per_second=12_345.6,
    steps_per_second=4.0,
    seconds_left=20.0,
    valid_loss=1.5,
)


def test_a_run_shows_its_loss_in_the_forms_of_its_task() -> None:
    output = io.StringIO()
    display = Display(Console(file=output, width=200)).shows("word", lambda loss: {"perplexity": math.exp(loss)})
    display.update(STATUS)
    assert output.getvalue().splitlines() == [
        "step 20/100 (epoch 2)  loss 2.0000  perplexity 7.4  valid perplexity 4.5  12,346 words/s  20 s left"
    ]


def test_a_task_without_other_forms_shows_losses() -> None:
    output = io.StringIO()
    Display(Console(file=output, width=200)).update(replace(STATUS, seconds_left=None, units_per_second=0.0))
    assert output.getvalue() == "step 20/100 (epoch 2)  loss 2.0000  valid loss 1.5000\n"


def test_without_a_terminal_a_run_shows_a_line_every_few_seconds_and_the_last() -> None:
    output = io.StringIO()
    display = Display(Console(file=output, width=200))
    for step in range(90, 101):
        display.update(replace(STATUS, step=step))
    assert [line.split()[1] for line in output.getvalue().splitlines()] == ["90/100", "100/100"]
    display.printed -= 11
    display.count(1000, 20_000)
    assert output.getvalue().splitlines()[-1] == "1,000 of 20,000 steps scored"


def test_a_terminal_gets_one_line_that_renews_itself() -> None:
    output = io.StringIO()
    display = Display(Console(file=output, width=80, force_terminal=True, no_color=True))
    with display.shown(), display.shown():
        display.update(STATUS)
        display.say("[bold]a path[/bold]")
    assert "[bold]a path[/bold]" in output.getvalue()
    assert "step 20/100" in output.getvalue()


def test_a_quiet_display_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display()
    display.update(STATUS)
    display.say("line")
    Display.on_terminal(quiet=True).say("line")
    assert capsys.readouterr().out == ""
    Display.on_terminal().say("line")
    assert capsys.readouterr().out == "line\n"


@pytest.mark.parametrize(
    ("loss", "text"),
    [(0.12345, "0.123"), (0.01, "0.010"), (0.00123, "0.0012"), (0.0, "0"), (float("nan"), "not a number")],
)
def test_a_loss_has_the_digits_that_mean_something(loss: float, text: str) -> None:
    assert number(loss) == text


def test_reading_shows_the_rate_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    output = io.StringIO()
    show = Display(Console(file=output, width=200)).reads("book.txt")
    show(1_000_000, 40_000_000)
    assert not output.getvalue(), "what takes a moment only is not worth a line"
    now[0] += 10.5
    show(21_000_000, 40_000_000)
    assert output.getvalue() == "book.txt: 52 %  2.0 MB/s  10 s left\n"
