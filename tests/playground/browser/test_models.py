"""A language model and a translator in a browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastweights.playground.reading import read_text
from fastweights.playground.runs import Runs
from fastweights.playground.translating import translate_sentence

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

TEXT = "the cat sat on the mat\na dog ran after the cat"


def shown_value(page: Any, where: str, name: str) -> float:
    return float(page.locator(f'{where} [data-name="{name}"]').get_attribute("data-value"))


def test_a_text_is_read_and_continued(open_page: Callable[..., Any], address: str, runs: tuple[Path, Path]) -> None:
    reading = read_text(*Runs([runs[0]]).language_model("book"), TEXT)
    page = open_page(address)
    page.get_by_role("tab", name="Inside").click()
    page.fill("#fw-text textarea", TEXT)
    page.click("#fw-read-text")
    page.wait_for_selector("#fw-tokens [data-token]")
    values = page.locator("#fw-tokens [data-token]").evaluate_all("all => all.map(x => x.dataset.value)")
    assert [float(value) for value in values[1:]] == pytest.approx(list(reading.surprises[1:]), abs=1e-6)
    page.locator('#fw-tokens [data-token="3"]').press("Enter")
    page.wait_for_selector("#fw-token >> text=position 3, surprise")
    for head in range(2):
        beta = reading.strengths[0][head, 3].item()
        assert shown_value(page, "#fw-token", f"beta-0-{head}") == pytest.approx(beta, abs=1e-6)
    erased = [shown_value(page, "#fw-token", f"erased-{n}") for n in range(len(reading.erasures[3]))]
    assert erased == pytest.approx([erasure.share for erasure in reading.erasures[3]], abs=1e-6)
    rank = reading.occupancy[0].ranks[-1][1]
    assert shown_value(page, "#fw-memory-view", "rank-0") == pytest.approx(rank, abs=1e-6)
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.token") == "4"
    page.click("#fw-go-on")
    page.wait_for_function("document.querySelector('#fw-written textarea').value.length > 5")


@pytest.mark.parametrize(("text", "message"), [("", "at least two tokens"), ("zzz qqq", "is not one of")])
def test_a_text_that_cannot_be_read_is_one_line(
    open_page: Callable[..., Any], address: str, text: str, message: str
) -> None:
    page = open_page(address)
    page.get_by_role("tab", name="Inside").click()
    page.fill("#fw-text textarea", text)
    page.click("#fw-read-text")
    page.wait_for_selector(f"text={message}")
    assert page.locator("#fw-tokens [data-token]").count() == 0


def test_a_sentence_is_translated(open_page: Callable[..., Any], address: str, runs: tuple[Path, Path]) -> None:
    found = translate_sentence(*Runs([runs[1]]).translator("pairs-run"), "a dog sees a cat", 4)
    page = open_page(address)
    page.get_by_role("tab", name="Translate").click()
    page.fill("#fw-sentence textarea", "a dog sees a cat")
    page.click("#fw-translate")
    page.wait_for_selector("#fw-translation .fw-beams li", timeout=120_000)  # transformers is imported
    assert page.locator("#fw-translation .fw-beams li").count() == 4
    assert shown_value(page, "#fw-translation", "log-p-0") == pytest.approx(found.found[0].log_probability, abs=1e-6)
    weight = found.reads[0].weights.mean(dim=0)[0, 1].item()
    assert shown_value(page, "#fw-translation", "read-0-0-1") == pytest.approx(weight, abs=1e-6)
    page.fill("#fw-sentence textarea", " ")
    page.click("#fw-translate")
    page.wait_for_selector("text=nothing to translate")
