"""A page that shows what the memories of a model do: figures, tables, and a window of tokens to move about in."""

from dataclasses import dataclass
from typing import Any

from fastweights.reporting.report import Table, render
from fastweights.reporting.style import Drawing


@dataclass(frozen=True)
class LookPage:
    """One HTML file that needs nothing else; everything that came from a text is escaped."""

    title: str
    facts: tuple[str, ...]
    drawings: tuple[Drawing, ...]
    tables: tuple[Table, ...]
    window: dict[str, Any]
    """Tokens, traces and weights between them, for the script of the page."""

    def html(self) -> str:
        """The whole page."""
        return render("look.html.jinja", page=self)
