"""`fastweights play`."""

from pathlib import Path

from tyro.conf import Positional

from fastweights.cli.results import set_threads


def play(
    runs: Positional[tuple[Path, ...]] = (), port: int = 7860, share: bool = False, threads: int | None = None
) -> None:
    """Open a page to play with a memory and to look into trained models; Ctrl-C ends it.

    Args:
        runs: folders of trained language models and translators to look into.
        port: where the page listens, on this machine alone (127.0.0.1).
        share: also give it a public address through a tunnel of gradio's makers; anybody who knows it can use it.
        threads: CPU threads.
    """
    from fastweights.playground.port import refuse_taken_port
    from fastweights.playground.runs import Runs

    set_threads(threads)
    refuse_taken_port(port)
    given = Runs(runs)
    try:
        from fastweights.playground.page.app import build, start, wait
    except ImportError as error:
        raise ValueError(f"the page needs gradio: pip install 'fastweights[play]' ({error})") from error
    page = build(given)
    print(f"The page is {start(page, port, share=share)} (Ctrl-C ends it)", flush=True)
    wait(page)
