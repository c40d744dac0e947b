"""The page as a user meets it: the command in a process of its own, and the system's Chromium."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 30_000
"""Milliseconds that a test waits for what it expects, on a machine that may be busy."""


def why_not() -> str | None:
    """What is missing for these tests."""
    missing = [name for name in ("gradio", "playwright") if find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed: `make test-browser` installs what these tests need"
    return None if shutil.which("chromium") else "there is no chromium on this machine"


@pytest.fixture(scope="session", autouse=True)
def _only_where_it_can_be() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny language model and a tiny translator."""
    import tiny_language_model
    import tiny_translation
    from fastweights.cli.train import train

    pytest.importorskip("transformers", reason="the translator needs transformers")
    words, pairs = tmp_path_factory.mktemp("words"), tmp_path_factory.mktemp("pairs")
    train(tiny_language_model.train_options(tiny_language_model.write_book(words), out=words / "book"))
    train(tiny_translation.train_options(tiny_translation.write_pairs(pairs), out=pairs / "pairs-run"))
    return words / "book", pairs / "pairs-run"


@pytest.fixture(scope="session")
def address(runs: tuple[Path, Path]) -> Iterator[str]:
    """The page of `fastweights play`; Ctrl-C ends it, and it says so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "fastweights", "play", *map(str, runs), "--port", str(port), "--threads", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    page = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    assert page.stdout is not None
    try:
        first = page.stdout.readline()
        assert f"http://127.0.0.1:{port}" in first, first + page.stdout.read()
        yield f"http://127.0.0.1:{port}"
        page.send_signal(signal.SIGINT)
        output, _ = page.communicate(timeout=30)
        assert page.returncode == 0, output
        assert output.strip() == "The page is closed."
    finally:
        page.kill()
        page.wait()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), headless=True, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a window of its own; at the end nothing may have been asked of another machine."""
    contexts, foreign = [], list[str]()

    def open_at(address: str, width: int = 1280, scheme: str = "light") -> Any:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        known = ("http://127.0.0.1", "data:", "blob:", "file:")
        page.on("request", lambda request: None if request.url.startswith(known) else foreign.append(request.url))
        page.goto(address)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert foreign == []
