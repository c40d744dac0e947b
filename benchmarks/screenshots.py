"""`python -m benchmarks.screenshots FOLDER LANGUAGE_MODEL TRANSLATOR TEXT`: every tab of `fastweights play`.

Wide and narrow, light and dark, with something in each; and the two of the documentation, `play-write.png` and
`play-inside.png`. TEXT is a file whose beginning the language model reads. Needs gradio, playwright and a Chromium.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.page import FLAGS, enter, served

WIDTHS, SCHEMES = (1280, 400), ("light", "dark")
DOCUMENTED = {"width": 1120, "height": 1180}
"""Of the pictures in the documentation, which show the top of a tab."""
WORDS = 94
WRITES = (("red", "heart"), ("green", "7"), ("blue", "fish"), ("red", "drop"))
SENTENCE = "A man in a blue shirt rides a bike down the street."


def main(folder: str, language_model: str, translator: str, text: str) -> None:
    """Operate the page in every width and scheme."""
    from playwright.sync_api import sync_playwright

    out, words = Path(folder), " ".join(Path(text).read_text(encoding="utf-8").split()[:WORDS])
    out.mkdir(parents=True, exist_ok=True)
    with served(language_model, translator) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        sizes = [({"width": width, "height": 900}, scheme) for width in WIDTHS for scheme in SCHEMES]
        for size, scheme in sizes:
            page = browser.new_page(viewport=size, color_scheme=scheme)
            for tab in tabs(page, address, words):
                page.screenshot(path=out / f"{tab}-{size['width']}-{scheme}.png", full_page=True)
            page.close()
        page = browser.new_page(viewport=DOCUMENTED, color_scheme="light")
        for tab in tabs(page, address, words):
            if tab in ("write", "inside"):
                page.evaluate("window.scrollTo(0, 0)")
                page.screenshot(path=out / f"play-{tab}.png")
        browser.close()


def tabs(page: Any, address: str, words: str) -> Iterator[str]:
    """The names of the tabs, each when it shows what it can."""
    page.goto(address)
    page.wait_for_selector("#fw-view .fw-memory")
    enter(page, "#fw-similarity", 0.15)()
    for count, (key, picture) in enumerate(WRITES, start=1):
        page.locator("#fw-key").get_by_label(key, exact=True).check()
        page.get_by_label("Picture or digit to take", exact=True).click()
        page.get_by_role("option", name=picture, exact=True).click()
        page.wait_for_timeout(500)  # until the pixels are those of the picture
        page.click("#fw-write")
        page.wait_for_function(f"document.querySelectorAll('#fw-history li').length === {count}")
    yield settled(page, "write")
    page.locator("#fw-count").get_by_label("4").check()
    page.wait_for_selector('[data-memory="3"]')
    yield settled(page, "write-four")
    page.get_by_role("tab", name="Capacity").click()
    enter(page, "#fw-stored", 20)()
    yield settled(page, "capacity")
    page.get_by_role("tab", name="Inside").click()
    page.fill("#fw-text textarea", words)
    page.click("#fw-read-text")
    page.wait_for_selector("#fw-tokens [data-token]")
    page.click("#fw-go-on")
    page.wait_for_function("document.querySelector('#fw-written textarea').value.length > 5")
    yield settled(page, "inside")
    page.get_by_role("tab", name="Translate").click()
    page.fill("#fw-sentence textarea", SENTENCE)
    page.click("#fw-translate")
    page.wait_for_selector("#fw-translation .fw-beams li", timeout=120_000)
    yield settled(page, "translate")


def settled(page: Any, name: str) -> str:
    """The name, when nothing moves any more."""
    page.mouse.move(0, 0)
    page.wait_for_timeout(1000)
    return name


if __name__ == "__main__":
    main(*sys.argv[1:])
