"""A process that carries out runs for a sweep: one request per line on standard input, events on standard output.

Started with a fresh interpreter, so torch is imported once for many runs. When standard input closes, because the sweep
is over or has died, the run at work saves a checkpoint and the process ends.
"""

import importlib
import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

GRACE = 5.0
"""Seconds between the end of the sweep and the end of this process, whatever it is doing."""


def main(function: str) -> None:
    """Serve requests until standard input closes, with the function that is named as `module:function`."""
    # Ctrl-C reaches the whole terminal; the sweep decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    events = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # nothing that is printed may mix with the events
    requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    stopping = threading.Event()
    threading.Thread(target=listen, args=(requests, stopping), daemon=True).start()
    module, _, name = function.partition(":")
    serve = getattr(importlib.import_module(module), name)
    while (request := requests.get()) is not None:
        job = json.loads(request)
        try:
            serve(json.loads(job["run"]), Path(job["results"]), stopping.is_set, lambda event: emit(events, event))
        except (ValueError, OSError, RuntimeError, ArithmeticError) as error:
            emit(events, {"event": "failed", "message": f"{type(error).__name__}: {error}"})


def listen(requests: "queue.SimpleQueue[str | None]", stopping: threading.Event) -> None:
    """Pass requests on; at the end of input ask the run at work to stop, and insist after a while."""
    for line in sys.stdin:
        requests.put(line)
    stopping.set()
    requests.put(None)
    time.sleep(GRACE)
    os._exit(1)


def emit(events: TextIO, event: dict[str, Any]) -> None:
    """Report to the sweep; it may be gone."""
    try:
        events.write(json.dumps(event) + "\n")
    except BrokenPipeError:
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
