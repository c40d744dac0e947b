"""A report: sections of text, figures and tables as one HTML file that needs nothing else."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastweights.files import write_whole
from fastweights.reporting.style import Drawing

if TYPE_CHECKING:
    import markupsafe


@dataclass(frozen=True)
class Table:
    """Rows of text under column heads."""

    name: str
    """The name of the table's marker in a Markdown file."""
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    wide: bool = False
    """True if cells hold sentences and need room."""

    def markdown(self) -> str:
        """The table for a Markdown file; a bar inside a cell would end it."""
        if not self.rows:
            return "(no runs yet)"
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


@dataclass(frozen=True)
class Section:
    """One part of a report."""

    title: str
    text: tuple[str, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    tables: tuple[Table, ...] = ()

    @property
    def anchor(self) -> str:
        """The name by which the section is linked inside the page."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())


@dataclass(frozen=True)
class Report:
    """A page: a title, a sentence or two, sections, and how it came about."""

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    origin: str

    def html(self) -> str:
        """The whole page. Everything that came from a file or a user is escaped."""
        return render("report.html.jinja", report=self)

    def save(self, folder: Path) -> Path:
        """Write report.html, and every figure as PNG and SVG beside it."""
        path = folder / "report.html"
        write_whole(path, self.html())
        self.save_figures(folder / "figures")
        return path

    def save_figures(self, folder: Path) -> None:
        """Write every figure as PNG and SVG."""
        for section in self.sections:
            for drawing in section.drawings:
                drawing.save(folder)


def render(template: str, **values: Any) -> str:
    """The page of a template in this folder; everything that came from a file or a user is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("fastweights.reporting", "."),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = code
    return environment.get_template(template).render(**values)


def code(text: str) -> "markupsafe.Markup":
    """Text in which words between backticks are set as code; everything is escaped."""
    from markupsafe import Markup, escape

    parts = [escape(part) for part in text.split("`")]
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else part for index, part in enumerate(parts)
    )


def fill_markers(text: str, tables: dict[str, str]) -> str:
    """Replace the text between `<!-- NAME -->` and `<!-- end NAME -->` by the table of this name."""
    for name, content in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
        if begin not in text:
            continue
        before, _, rest = text.partition(begin)
        if end not in rest:
            raise ValueError(f"marker {begin!r} has no {end!r} after it")
        text = f"{before}{begin}\n\n{content}\n\n{end}{rest.partition(end)[2]}"
    return text
