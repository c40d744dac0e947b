"""How controls are answered: at once, hidden from other programs, and a mistake as one line in the page."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import gradio as gr

MISTAKES = (ValueError, OSError, FloatingPointError)


def refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; what it refuses becomes a message of the page."""

    @wraps(function)
    def refused(*values: Any) -> Any:
        try:
            return function(*values)
        except MISTAKES as error:
            raise gr.Error(str(error), duration=20, print_exception=False) from error

    return refused


def answer(
    event: Callable[..., Any],
    function: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *,
    progress: bool = False,
) -> None:
    """Answer an event with a function; while one is being answered, only the last of the others counts."""
    event(
        refusing(function),
        list(inputs),
        list(outputs),
        queue=progress,
        show_progress="minimal" if progress else "hidden",
        trigger_mode="once" if progress else "always_last",
        api_visibility="private",
    )


def answer_upload(button: gr.UploadButton, function: Callable[..., Any], read: Any, outputs: Sequence[Any]) -> None:
    """Answer a file that was given: its content, never its name or place, reaches the function."""
    answer(button.upload, function, [read, button], outputs)
