"""A request to stop (Ctrl-C, a scheduler's SIGTERM) as a flag that a loop checks between two steps."""

import signal
import threading
from types import FrameType

STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1") if hasattr(signal, name))


class StopSignals:
    """While the context lasts, the first such signal is only noted; a second one acts as it always does."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                # Signals that are ignored, as under nohup, stay ignored.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before = {}


def end_process(number: int | None) -> None:
    """End as a program does that was stopped by a signal: KeyboardInterrupt after Ctrl-C, its exit code otherwise."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + (number or signal.SIGTERM))
