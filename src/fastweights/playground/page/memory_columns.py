"""The memories side by side: a column for each, with what it is made of above what it holds."""

from collections.abc import Iterable, Sequence

import gradio as gr

from fastweights.playground.choices import NORMALISED, PLAYED_MAPS, PLAYED_RULES, MemoryChoice
from fastweights.playground.session import Session
from fastweights.playground.view.memories import memory_views

OFFERED = (
    *Session().memories,
    MemoryChoice("delta", "dpfp-1", "sum"),
    MemoryChoice("gated-delta", "dpfp-1", "l2"),
)
"""What the columns hold when they appear."""
TABLES: dict[str, Iterable[str]] = {"Rule": PLAYED_RULES, "Feature map": PLAYED_MAPS, "Normalisation": NORMALISED}


class MemoryColumns:
    """Columns, their views, and their choosers: rule, map and normalisation of the first memory, of the second, …"""

    def __init__(self, session: Session, read: str) -> None:
        self.columns, self.views, self.choosers = list[gr.Column](), list[gr.HTML](), list[gr.Dropdown]()
        with gr.Row(elem_id="fw-view"):
            for place, view in enumerate(memory_views(session, read)):
                visible = place < len(session.memories)
                with gr.Column(min_width=180, visible=visible, elem_classes="fw-column") as column:
                    self.choosers += _choosers(place)
                    self.views.append(gr.HTML(view))
                self.columns.append(column)


def names_of(memories: Sequence[MemoryChoice]) -> list[str]:
    """What all choosers show with these memories; those beyond them, what they offer."""
    return [name for memory in (*memories, *OFFERED[len(memories) :]) for name in _names(memory)]


def _choosers(place: int) -> list[gr.Dropdown]:
    return [
        gr.Dropdown(list(table), value=name, label=f"{label} of memory {place + 1}", elem_id=f"fw-{label[:4]}-{place}")
        for (label, table), name in zip(TABLES.items(), _names(OFFERED[place]), strict=True)
    ]


def _names(choice: MemoryChoice) -> tuple[str, str, str]:
    return choice.rule, choice.feature_map, choice.normalisation
