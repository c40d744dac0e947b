"""Tables, figures and pages for the user. matplotlib and jinja2 are imported when something is drawn."""

from fastweights.reporting.look_page import LookPage
from fastweights.reporting.report import Report, Section, Table, fill_markers
from fastweights.reporting.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    Drawing,
    Series,
    draw,
    legend_of,
)
from fastweights.reporting.terminal import print_entries, print_table
from fastweights.reporting.traces import draw_traces, layer_label

__all__ = [
    "BLACK", "BLUE", "GREEN", "GREY", "ORANGE", "PURPLE", "SKY", "VERMILION", "YELLOW",
    "Drawing", "LookPage", "Report", "Section", "Series", "Table", "draw", "draw_traces", "fill_markers",
    "layer_label", "legend_of", "print_entries", "print_table",
]  # fmt: skip
