"""What a sweep tells while it runs."""

import io

import pytest
from rich.console import Console

from fastweights.runs.display import Running, SweepProgress, duration, ending


def plain_progress(total: int = 3, done: int = 1) -> tuple[SweepProgress, io.StringIO]:
    output = io.StringIO()
    return SweepProgress(total, done, work=2.0, console=Console(file=output, width=60)), output


def test_without_a_terminal_there_are_plain_lines() -> None:
    progress, output = plain_progress()
    with progress.shown():
        progress.start("run-a-0123", Running("run-a"))
        progress.update("run-a-0123", step=200, loss=0.125, steps_per_second=31.4)
        progress.printed -= 11
        progress.refresh()
        progress.refresh()
        progress.finish("run-a-0123", {"best_loss": 0.0009, "steps": 300, "stopped_because": "solved"}, work=1.0)
    lines = output.getvalue().splitlines()
    assert lines[0] == "1 of 3 runs done, time left not known yet"
    assert lines[1].endswith("run-a step 200 loss 0.125 (31 steps/s)")
    assert lines[2] == "2/3 run-a: best loss 0.0009, 300 steps, solved"
    assert len(lines) == 3
    assert "\x1b" not in output.getvalue()


def test_time_left_follows_the_work_that_is_done() -> None:
    progress, _ = plain_progress()
    progress.started -= 100
    progress.finish("x", None, work=0.5)
    assert progress.time_left() == "about 5 min left"


def test_names_are_not_taken_for_markup() -> None:
    output = io.StringIO()
    progress = SweepProgress(1, 0, 1.0, console=Console(file=output, width=80, force_terminal=True, no_color=True))
    progress.start("x", Running("[red]name[/red]"))
    progress.console.print(progress.render())
    progress.say("[bold]line[/bold]")
    assert "[red]name[/red]" in output.getvalue()
    assert "[bold]line[/bold]" in output.getvalue()


def test_a_terminal_gets_a_table() -> None:
    output = io.StringIO()
    progress = SweepProgress(4, 0, 1.0, console=Console(file=output, width=80, force_terminal=True, no_color=True))
    with progress.shown():
        progress.start("x", Running("some-run"))
        progress.update("x", step=7, loss=0.5, steps_per_second=12.0)
        progress.refresh()
        progress.drop("x")
    assert "0 of 4 runs done" in output.getvalue()
    assert "some-run" in output.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (7200, "2.0 h")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_an_ending_without_a_finite_loss() -> None:
    assert ending({"best_loss": None, "steps": 1100, "stopped_because": "not-finite"}) == (
        "no finite loss, 1100 steps, not-finite"
    )
