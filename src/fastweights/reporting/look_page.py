"""A page that shows what the memories of a model do: figures, tables, and a window of tokens to move about in."""

from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from fastweights.reporting.report import Table, code
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
        environment = Environment(
            loader=PackageLoader("fastweights.reporting", "."),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters["code"] = code
        return environment.get_template("look.html.jinja").render(page=self)
