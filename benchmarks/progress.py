"""How far a run is: a bar on a terminal, plain lines elsewhere, with the rate and the time left."""

from time import perf_counter

from rich.console import Console
from rich.status import Status


class Progress:
    """Counts finished measurements, weighted by how long each was expected to take."""

    def __init__(self, expected: dict[str, float]) -> None:
        self.expected, self.started, self.finished = expected, perf_counter(), 0.0
        self.count = 0
        self.console = Console(highlight=False)
        self.status: Status | None = self.console.status("") if self.console.is_terminal else None

    def __enter__(self) -> "Progress":
        if self.status is not None:
            self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()

    def begin(self, name: str) -> None:
        """Say what is measured now; without a terminal the line comes when it is done."""
        if self.status is not None:
            self.status.update(f"{self._position(self.count + 1)}  {name}  {self._pace()}")

    def end(self, name: str, seconds: float) -> None:
        """Note that one more is done."""
        self.count += 1
        self.finished += self.expected[name]
        if self.status is None:
            print(f"{self._position(self.count)}  {name}: {seconds:.0f} s  {self._pace()}", flush=True)

    def _position(self, number: int) -> str:
        return f"{number:{len(str(len(self.expected)))}}/{len(self.expected)}"

    def _pace(self) -> str:
        elapsed = perf_counter() - self.started
        if self.count == 0:
            return f"(about {clock(sum(self.expected.values()))} in all)"
        left = (sum(self.expected.values()) - self.finished) * elapsed / self.finished
        return f"({60 * self.count / elapsed:.1f} per minute, {clock(left)} left)"


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
