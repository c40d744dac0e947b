"""What is on the page: the numbers of the library with all their digits, pictures with words, and nothing unescaped."""

import base64
import re
from dataclasses import replace

import pytest

from fastweights.playground import session_file
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.keys import COLOURS
from fastweights.playground.outcome import outcome
from fastweights.playground.pictures import named
from fastweights.playground.session import Session, Write
from fastweights.playground.view.memories import history_view, memory_views, save_link

SESSION = Session(similarity=0.2).write(Write("red", named("heart"))).write(Write("red", named("fish"), 0.5, 0.9))


def memories_view(session: Session, read: str) -> str:
    return "".join(memory_views(session, read))


def values(html: str, name: str) -> list[float]:
    return [float(x) for x in re.findall(rf'data-name="{name}" data-value="([^"]+)"', html)]


def test_numbers_are_those_of_the_library_to_the_last_digit() -> None:
    session = replace(SESSION, memories=(MemoryChoice("sum", "dpfp-1"), MemoryChoice("delta", "dpfp-1")))
    html = memories_view(session, "red")
    found = [outcome(session, choice) for choice in session.memories]
    assert values(html, "landing") == [memory.landing for memory in found]
    assert values(html, "balance") == [memory.balance for memory in found]
    assert values(html, "read-error") == [memory.errors["red"] for memory in found]
    assert values(html, "singular-value-0") == [memory.singular_values[0] for memory in found]


def test_every_picture_has_words() -> None:
    html = memories_view(SESSION, "blue")
    images = re.findall(r"<img[^>]*>", html)
    assert len(images) == len(SESSION.memories) * (1 + len(COLOURS) + 2)
    assert all(re.search(r'alt="[^"]+"', image) for image in images)
    assert "nothing was written under it" in html


def test_places_without_a_memory_are_empty() -> None:
    assert [bool(html) for html in memory_views(SESSION, "red")] == [True, True, False, False]


def test_a_drawing_is_called_one() -> None:
    drawing = Session().write(Write("red", (1, *named("heart")[1:])))
    assert "Error against the drawing that was written last" in memories_view(drawing, "red")


def test_a_memory_that_cannot_be_says_why_beside_the_others() -> None:
    html = memories_view(Session((MemoryChoice("sum", "tanh", "attention"), MemoryChoice())), "red")
    assert "can be negative" in html
    assert html.count("data-memory=") == 1


def test_the_history_marks_where_we_are_and_saves_all_of_it() -> None:
    html = history_view(SESSION.back())
    assert html.count("aria-current=step") == html.count("fw-undone") == 1
    saved = re.search(r'href="data:application/json;base64,([^"]+)"', save_link(SESSION.back()))
    assert saved is not None
    assert session_file.from_bytes(base64.b64decode(saved[1])) == SESSION.back()
    assert "Nothing has been written yet" in history_view(Session())


@pytest.mark.parametrize("rule", ["sum", "gated-delta"])
def test_a_rule_without_a_gate_says_so(rule: str) -> None:
    html = memories_view(Session((MemoryChoice(rule), MemoryChoice("gated-delta"))), "red")
    assert ("no β and no decay" in html) == (rule == "sum")
