"""`python -m benchmarks.page RUN TEXT`: how long the page of `fastweights play` takes, from a click to the last change.

RUN is the folder of a language model with words as tokens, TEXT a file. Needs gradio, playwright and a Chromium.
"""

import shutil
import signal
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastweights.reporting import print_table

REPEATS = 6
TOKENS = 500
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
WATCH = """() => {
  window.fwTimes = {started: 0, changed: 0};
  const now = () => performance.now(), times = window.fwTimes;
  document.addEventListener('pointerdown', () => { times.started = now(); }, true);
  document.addEventListener('input', () => { if (now() - times.started > 100) times.started = now(); }, true);
  const views = '#fw-view .html-container, #fw-capacity, #fw-tokens, #fw-token, #fw-memory-view, #fw-translation';
  const changed = new MutationObserver(all => {
    if (all.some(one => (one.target.closest ?? one.target.parentElement?.closest)?.call(one.target, views)))
      times.changed = now();
  });
  changed.observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
}"""
SETTLED = """() => {
  const {started, changed} = window.fwTimes;
  return changed > started && performance.now() - changed > 400;
}"""
"""Nothing of what is shown has changed for 400 ms after the first change; the time taken ends with the last one."""


def main(run: str, text: str) -> None:
    """Time every interaction in a window of 1,280 pixels."""
    from playwright.sync_api import sync_playwright

    words = Path(text).read_text(encoding="utf-8").split()
    with served(run) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        page.wait_for_selector("#fw-view .fw-memory")
        page.evaluate(WATCH)
        rows = [*memory_page(page), *capacity(page), *inside(page, words)]
        browser.close()
    print_table(f"Milliseconds from a click to the last change, {address}", ["what", "first", "median", "worst"], rows)


@contextmanager
def served(*runs: str) -> Iterator[str]:
    """The page in a process of its own, ended with Ctrl-C."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "fastweights", "play", *runs, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        print(process.stdout.readline().strip(), flush=True)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def timed(page: Any, name: str, acts: list[Callable[[], Any]]) -> list[str]:
    """One row: the first time, the median and the worst."""
    found = []
    for act in acts:
        act()
        page.wait_for_function(SETTLED, polling=50)
        found.append(page.evaluate("window.fwTimes.changed - window.fwTimes.started"))
    return [name, *(f"{value:.0f}" for value in (found[0], statistics.median(found), max(found)))]


def memory_page(page: Any) -> Iterator[list[str]]:
    """Write, step back and forth, read, change similarity and rule, with two and with four memories."""
    for count in ("2", "4"):
        page.locator("#fw-count").get_by_label(count).check()
        page.wait_for_timeout(1000)
        yield timed(page, f"write, {count} memories", REPEATS * [lambda: page.click("#fw-write")])
        yield timed(page, f"undo, {count} memories", (REPEATS - 1) * [lambda: page.click("#fw-back")])
        yield timed(page, f"redo, {count} memories", (REPEATS - 1) * [lambda: page.click("#fw-forward")])
        keys = page.locator("#fw-read-key label")
        yield timed(page, f"read, {count} memories", [keys.nth(n % 8).click for n in range(1, REPEATS + 1)])
        similar = [enter(page, "#fw-similarity", n / 20) for n in range(1, REPEATS + 1)]
        yield timed(page, f"similarity, {count} memories", similar)
        rules = ["gated-delta", "normalised-step", "sum", "delta"]
        yield timed(page, f"rule, {count} memories", [choose(page, "Rule of memory 1", rule) for rule in rules])


def capacity(page: Any) -> Iterator[list[str]]:
    """Slide the number of associations."""
    page.get_by_role("tab", name="Capacity").click()
    yield timed(page, "capacity", [enter(page, "#fw-stored", 10 + n) for n in range(1, REPEATS + 1)])


def inside(page: Any, words: list[str]) -> Iterator[list[str]]:
    """Read texts of so many tokens, and choose tokens."""
    page.get_by_role("tab", name="Inside").click()

    def read(place: int) -> Callable[[], None]:
        def act() -> None:
            page.fill("#fw-text textarea", " ".join(words[place * TOKENS : (place + 1) * TOKENS]))
            page.click("#fw-read-text")

        return act

    yield timed(page, f"read a text of {TOKENS} tokens", [read(n) for n in range(5)])
    tokens = page.locator("#fw-tokens [data-token]")
    assert tokens.count() == TOKENS
    yield timed(page, "choose a token", [tokens.nth(10 * n).click for n in range(1, REPEATS + 1)])


def enter(page: Any, slider: str, value: float) -> Callable[[], None]:
    """Give a slider another value with the keyboard."""

    def act() -> None:
        number = page.locator(f"{slider} input[type=number]")
        number.fill(str(value))
        number.press("Enter")

    return act


def choose(page: Any, label: str, name: str) -> Callable[[], None]:
    """Choose from a list."""

    def act() -> None:
        page.get_by_label(label, exact=True).click()
        page.get_by_role("option", name=name, exact=True).click()

    return act


if __name__ == "__main__":
    main(*sys.argv[1:])
