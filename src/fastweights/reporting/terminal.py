"""Tables on the terminal: drawn for people, plain aligned columns for pipes and logs."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 1000
"""Wide enough that no row is folded where nobody looks at it as it scrolls by."""


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
