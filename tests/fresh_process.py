"""Scripts in processes of their own that start at once, forked from a server that has imported the library."""

import multiprocessing
import os
import runpy
import sys
import warnings
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["torch", "fastweights.layers", "fastweights.models.language_model"])


def exit_code(script: Path, folder: Path) -> int | None:
    """Run a script in a folder, with every warning an error; 0 if it reaches its end."""
    process = SERVER.Process(target=_run, args=(script, folder))
    process.start()
    process.join(timeout=300)
    return process.exitcode


def _run(script: Path, folder: Path) -> None:
    os.chdir(folder)
    sys.argv = [str(script)]
    warnings.simplefilter("error")
    runpy.run_path(str(script), run_name="__main__")
