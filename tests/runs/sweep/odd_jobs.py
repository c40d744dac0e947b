"""A function that workers call in tests: each job says what it does, well behaved or not."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def serve(
    request: dict[str, Any], results: Path, interrupted: Callable[[], bool], emit: Callable[[dict[str, Any]], None]
) -> None:
    """Do what the request says: return, print, raise, wait for the end, hang, or die."""
    match request["do"]:
        case "return":
            emit({"event": "progress", "step": 1, "steps": 2, "loss": 0.5, "steps_per_second": 2.0})
        case "write":
            emit({"event": "progress", "step": 1, "steps": 2, "loss": 0.5, "steps_per_second": 2.0})
            (results / "records").mkdir()
            (results / "records" / "run.json").write_text(request["record"])
        case "wait for nobody":
            emit({"event": "progress", "step": 1, "steps": 2, "loss": 0.5, "steps_per_second": 2.0})
            while not interrupted():
                time.sleep(0.01)
            emit({"event": "taken"})
            return
        case "print":
            print("not an event")
            os.write(1, b"nor this\n")
            sys.stdout.flush()
        case "raise":
            raise ValueError("one clear line")
        case "overflow":
            raise FloatingPointError("not finite")
        case "wait":
            emit({"event": "progress", "step": 1, "steps": 2, "loss": 0.5, "steps_per_second": 2.0})
            while not interrupted():
                time.sleep(0.01)
            (results / "stopped").touch()
        case "hang":
            emit({"event": "progress", "step": 1, "steps": 2, "loss": 0.5, "steps_per_second": 2.0})
            time.sleep(600)
        case "die":
            os._exit(9)
        case "die once" if not (results / "died").exists():
            (results / "died").touch()
            os._exit(9)
    emit({"event": "finished", "result": {"best_loss": 0.25, "steps": 1}})
