"""Writing, overwriting, reading, undoing, other rules and files, in a browser; numbers are the library's to 1e-6."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastweights.playground import session_file
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.keys import COLOURS
from fastweights.playground.outcome import outcome
from fastweights.playground.pictures import named
from fastweights.playground.session import Session, Write

pytestmark = pytest.mark.slow

HEART, FISH = named("heart"), named("fish")


@pytest.fixture
def page(open_page: Callable[..., Any], address: str) -> Any:
    found = open_page(address)
    found.wait_for_selector("#fw-view .fw-memory")
    return found


def pick(page: Any, group: str, name: str) -> None:
    page.locator(group).get_by_label(name, exact=True).check()


def choose(page: Any, label: str, name: str) -> None:
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=name, exact=True).click()


def slide(page: Any, slider: str, value: float) -> None:
    number = page.locator(f"{slider} input[type=number]")
    number.fill(str(value))
    number.press("Enter")


def expect(page: Any, session: Session, read: str = "red") -> None:
    """Wait until the page shows this session, and compare every number of every memory with the library's."""
    page.wait_for_function(f"document.querySelector('#fw-now input[type=number]').value === '{session.now}'")
    for place, choice in enumerate(session.memories):
        found = outcome(session, choice)
        wanted = {"landing": found.landing, "balance": found.balance, "effective-rank": found.effective_rank}
        wanted |= {"crosstalk": found.crosstalk, "largest-weight": float(found.weights.abs().max())}
        wanted |= {f"error-{key}": error for key, error in found.errors.items()}
        if read in found.errors:
            wanted["read-error"] = found.errors[read]
        numbers = {name: value for name, value in wanted.items() if value is not None}
        page.wait_for_function(
            """([place, wanted]) => Object.entries(wanted).every(([name, value]) => {
                const shown = document.querySelector(`[data-memory="${place}"] [data-name="${name}"]`);
                return shown && shown.dataset.value !== '' && Math.abs(Number(shown.dataset.value) - value) <= 1e-6;
            })""",
            arg=[place, numbers],
        )


def write(page: Any, session: Session, key: str, picture: str) -> Session:
    choose(page, "Picture or digit to take", picture)
    pick(page, "#fw-key", key)
    page.wait_for_function(
        f"document.querySelectorAll('#fw-draw input:checked').length === {sum(named(picture))}", timeout=30_000
    )
    page.click("#fw-write")
    after = session.write(Write(key, named(picture)))
    expect(page, after)
    return after


def test_write_overwrite_read_undo(page: Any) -> None:
    session = write(page, write(page, Session(), "red", "heart"), "red", "fish")
    both, last = (outcome(session, choice) for choice in session.memories)
    assert both.errors["red"] > 0.5 > 1e-6 > last.errors["red"]
    pick(page, "#fw-read-key", "blue")
    page.wait_for_selector("text=nothing was written under it")
    pick(page, "#fw-read-key", "red")
    page.click("#fw-back")
    expect(page, session.back())
    page.click("#fw-forward")
    expect(page, session)
    slide(page, "#fw-now", 0)
    expect(page, session.at(0))


def test_another_rule_similarity_and_strength(page: Any) -> None:
    slide(page, "#fw-similarity", 0.4)
    slide(page, "#fw-strength", 0.5)
    slide(page, "#fw-decay", 0.9)
    page.click("#fw-write")
    session = replace(Session(), similarity=0.4).write(Write("red", HEART, 0.5, 0.9))
    expect(page, session)
    page.locator("#fw-count").get_by_label("4").check()
    choose(page, "Rule of memory 1", "gated-delta")
    choose(page, "Feature map of memory 1", "dpfp-2")
    choose(page, "Normalisation of memory 1", "attention")
    memories = (
        MemoryChoice("gated-delta", "dpfp-2", "attention"),
        MemoryChoice("delta"),
        MemoryChoice("delta", "dpfp-1", "sum"),
        MemoryChoice("gated-delta", "dpfp-1", "l2"),
    )
    expect(page, replace(session, memories=memories))


def test_a_drawing_by_keyboard(page: Any) -> None:
    box = page.get_by_label("row 1, column 1", exact=True)
    box.focus()
    page.keyboard.press("Space")
    page.focus("#fw-write")
    page.keyboard.press("Enter")
    expect(page, Session().write(Write("red", (1, *HEART[1:]))))
    assert page.locator("#fw-history").inner_text().count("a drawing") == 1


def test_a_drawing_with_the_button_held_down(page: Any) -> None:
    def over(place: str) -> tuple[float, float]:
        box = page.get_by_label(place, exact=True).bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    page.click("#fw-clear")
    page.wait_for_function("document.querySelectorAll('#fw-draw input:checked').length === 0")
    page.mouse.move(*over("row 2, column 1"))
    page.mouse.down()
    page.mouse.move(*over("row 2, column 7"), steps=14)
    page.mouse.up()
    page.wait_for_function("document.querySelectorAll('#fw-draw input:checked').length === 7")
    page.click("#fw-write")
    expect(page, Session().write(Write("red", (0,) * 7 + (1,) * 7 + (0,) * 35)))


def test_arrow_keys_move_over_the_pixels_and_tab_leaves_them(page: Any) -> None:
    page.get_by_label("row 1, column 1", exact=True).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.closest('label').innerText.trim()") == "row 3, column 1"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "fw-clear"


def test_the_ends_of_the_history_have_no_further_step(page: Any) -> None:
    back, forward = page.locator("#fw-back"), page.locator("#fw-forward")
    assert back.is_disabled()
    assert forward.is_disabled()
    write(page, Session(), "red", "fish")
    page.wait_for_function("!document.querySelector('#fw-back').disabled")
    assert forward.is_disabled()
    back.click()
    page.wait_for_function("!document.querySelector('#fw-forward').disabled")
    assert back.is_disabled()


def test_a_file_restores_everything(page: Any, tmp_path: Path) -> None:
    write(page, write(page, Session(), "green", "7"), "blue", "sun")
    slide(page, "#fw-similarity", 0.25)
    choose(page, "Rule of memory 2", "normalised-step")
    page.click("#fw-back")
    memories = (MemoryChoice("sum"), MemoryChoice("normalised-step"))
    writes = (Write("green", named("7")), Write("blue", named("sun")))
    session = Session(memories, 0.25, writes, 1)
    expect(page, session)
    with page.expect_download() as download:
        page.click(".fw-save")
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    assert session_file.from_bytes(saved.read_bytes()) == session
    page.reload()
    page.wait_for_selector("#fw-view .fw-memory")
    page.set_input_files("input[type=file]", saved)
    expect(page, session)
    assert page.get_by_label("Rule of memory 2", exact=True).input_value() == "normalised-step"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"format": "fastweights-playground-1", "memo', "not JSON"),
        (json.dumps({"format": "other"}).encode(), "not a session of this page"),
    ],
)
def test_a_broken_upload_is_one_line_and_changes_nothing(
    page: Any, tmp_path: Path, content: bytes, message: str
) -> None:
    session = write(page, Session(), "red", "fish")
    (tmp_path / "broken.json").write_bytes(content)
    page.set_input_files("input[type=file]", tmp_path / "broken.json")
    page.wait_for_selector(f"text={message}")
    box = page.locator(".fw-problem").bounding_box()
    assert 0 <= box["y"] < page.evaluate("innerHeight")  # seen from wherever the page is scrolled to
    expect(page, session)


def test_a_file_that_is_too_large_is_refused(page: Any, tmp_path: Path) -> None:
    (tmp_path / "large.json").write_bytes(b" " * 2_000_000)
    page.set_input_files("input[type=file]", tmp_path / "large.json")
    page.wait_for_selector("text=/maximum allowed size|at most 65,536|exceeds/i")
    expect(page, Session())


@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_is_wider_than_the_window(open_page: Callable[..., Any], address: str, width: int) -> None:
    page = open_page(address, width=width, scheme="dark")
    page.wait_for_selector("#fw-view .fw-memory")
    page.click("#fw-write")
    expect(page, Session().write(Write("red", HEART)))
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_control_has_a_name(page: Any) -> None:
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('input, select, textarea, button')].filter(control => {
            if (control.type === 'file' || control.offsetParent === null) return false;
            const words = control.labels?.[0]?.innerText || control.getAttribute('aria-label') || control.title
                || control.innerText || control.closest('label')?.textContent;
            return !words?.trim();
        }).map(control => control.outerHTML.slice(0, 120))"""
    )
    assert nameless == []
    assert len(COLOURS) == page.locator("#fw-key input[type=radio]").count()
