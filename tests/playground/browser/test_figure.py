"""The figure of the documentation's first page: writes and reads by keyboard, numbers of the library to 1e-6."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fastweights.experiments.demo.memory import PICTURES
from fastweights.playground.figure.script import FIGURE_MEMORIES, SIMILARITY
from fastweights.playground.keys import COLOURS
from fastweights.playground.outcome import outcome
from fastweights.playground.pictures import named
from fastweights.playground.session import Session, Write

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[3] / "docs"
WRITES = (("red", "heart"), ("blue", "drop"), ("red", "fish"))


def expect(page: Any, session: Session) -> None:
    """Compare what every key retrieves in both memories, pixel by pixel, with the library."""
    pictures = torch.tensor([named(name) for name in PICTURES], dtype=torch.float64)
    for place, choice in enumerate(FIGURE_MEMORIES.values()):
        found = outcome(session, choice)
        for key in COLOURS:
            shown = page.locator(f'[data-memory="{place}"] [data-key="{key}"]').get_attribute("data-read")
            mixture = torch.tensor([float(share) for share in shown.split(" ")], dtype=torch.float64)
            torch.testing.assert_close(mixture @ pictures, found.reads[key], rtol=0, atol=1e-6)


def test_writes_by_keyboard_give_what_the_library_gives(open_page: Callable[..., Any], tmp_path: Path) -> None:
    script = (DOCS / "javascripts" / "figure.js").read_text(encoding="utf-8")
    file = tmp_path / "figure.html"
    file.write_text(f'<!doctype html><meta charset="utf-8"><div id="fw-figure"></div><script>{script}</script>')
    page = open_page(file.as_uri())
    session = Session(tuple(FIGURE_MEMORIES.values()), SIMILARITY)
    expect(page, session)
    for key, picture in WRITES:
        page.get_by_label(key, exact=True).focus()
        page.keyboard.press("Space")
        page.get_by_label(picture, exact=True).focus()
        page.keyboard.press("Space")
        page.get_by_role("button", name="Write").focus()
        page.keyboard.press("Enter")
        session = session.write(Write(key, named(picture)))
        expect(page, session)
    page.get_by_role("button", name="Undo").press("Enter")
    expect(page, session.back())
    page.get_by_role("button", name="Redo").press("Enter")
    expect(page, session)
    assert "fish" in page.locator('[data-memory="1"] [data-key="red"] canvas').get_attribute("aria-label")
    page.get_by_role("button", name="Empty both memories").click()
    expect(page, session.at(0))
