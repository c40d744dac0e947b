"""How controls are answered, and how a mistake becomes one line in the page."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import gradio as gr

from fastweights.playground.view.text import problem

MISTAKES = (ValueError, OSError, FloatingPointError)


def answer(
    event: Callable[..., Any],
    function: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    message: gr.HTML,
    *,
    progress: bool = False,
) -> None:
    """Answer an event with a function: what it refuses is shown in `message`, and everything else stays as it is.

    Answers that take milliseconds go around gradio's queue, which would take several times as long; while one is on its
    way, only the last of the next ones counts.
    """

    @wraps(function)  # gradio looks at its signature
    def refused(*values: Any) -> Any:
        try:
            found = function(*values)
        except MISTAKES as error:
            return (*(gr.skip() for _ in outputs), problem(str(error)))
        return (*found, "") if isinstance(found, tuple) else (found, "")

    event(
        refused,
        list(inputs),
        [*outputs, message],
        queue=progress,
        show_progress="minimal" if progress else "hidden",
        trigger_mode="once" if progress else "always_last",
        api_visibility="private",
    )
