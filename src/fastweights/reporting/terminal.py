"""Tables on the terminal, drawn for people and plain aligned columns for pipes and logs, and lists of names."""

import shutil
import textwrap
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 1000
"""Wide enough that no row of a pipe or a log is folded."""
INDENT = 20


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their column heads, to standard output as it is now."""
    console = Console(highlight=False)
    drawn = console.is_terminal
    if not drawn:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD if drawn else None)
    for column in columns:
        table.add_column(column, no_wrap=not drawn)
    for row in rows:
        # Text, because a cell may hold square brackets that rich would take for markup.
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    console.print()


def print_entries(title: str, entries: Iterable[tuple[str, ...]]) -> None:
    """Print names with paragraphs beside them, folded to the width of the terminal (80 for pipes, or COLUMNS)."""
    width = max(shutil.get_terminal_size().columns, 2 * INDENT)
    print(title)
    for name, *paragraphs in entries:
        lines = [
            line
            for paragraph in paragraphs
            for line in textwrap.wrap(paragraph, width - INDENT, break_long_words=False, break_on_hyphens=False)
        ]
        if len(name) > INDENT - 4:
            lines.insert(0, "")
        for head, line in zip([f"  {name}", *[""] * len(lines)], lines, strict=False):
            print(f"{head:{INDENT}}{line}".rstrip())
    print()
