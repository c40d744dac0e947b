"""The whole page, and serving it."""

import os
import threading
from pathlib import Path
from typing import Any

# Before gradio is imported: it reads this once.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import gradio as gr

from fastweights.playground import session_file
from fastweights.playground.keys import COLOURS
from fastweights.playground.page.capacity_tab import capacity_tab
from fastweights.playground.page.reading_tab import reading_tab
from fastweights.playground.page.translation_tab import translation_tab
from fastweights.playground.page.write_tab import write_tab
from fastweights.playground.port import HOST
from fastweights.playground.runs import Runs

TITLE = "fastweights: play with a memory"
KEPT = (600, 600)
"""Seconds between two looks for files that visitors gave, and the age at which they are deleted; all go at the end."""


def build(runs: Runs) -> gr.Blocks:
    """The page with all its tabs."""
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True, delete_cache=KEPT) as page:
        gr.Markdown("# Play with a fast-weight memory")
        with gr.Tabs():
            with gr.Tab("Write"):
                write_tab()
            with gr.Tab("Capacity"):
                capacity_tab()
            with gr.Tab("Inside"):
                reading_tab(runs)
            if runs.translators:
                with gr.Tab("Translate"):
                    translation_tab(runs)
    return page


def start(page: gr.Blocks, port: int, *, share: bool = False) -> str:
    """Serve the page on this machine alone, or through gradio's tunnel if asked to share; the address of the page."""
    style = Path(__file__).with_name("style.css")
    _, local, public = page.launch(
        server_name=HOST,
        server_port=port,
        share=share,
        quiet=True,
        prevent_thread_lock=True,
        max_file_size=session_file.MOST_BYTES,
        theme=gr.themes.Default(
            primary_hue="blue", font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
        ),
        css=key_colours(),
        css_paths=[style],
        footer_links=[],
        ssr_mode=False,
        run_history=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
        strict_cors=True,
    )
    return public or local


def key_colours() -> str:
    """The dots beside the names of the keys."""
    return "".join(
        f":is(#fw-key, #fw-read-key) label:nth-of-type({place}) {{ --fw-dot: {colour}; }}\n"
        for place, colour in enumerate(COLOURS.values(), start=1)
    )


def wait(page: Any) -> None:
    """Serve until Ctrl-C."""
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print("\nThe page is closed.")
    finally:
        page.close(verbose=False)
