"""Curves for TensorBoard, where it is installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any


class Scalars:
    """Writes scalars into a folder that `tensorboard --logdir` shows."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    @classmethod
    def open(cls, folder: Path, step: int) -> "Scalars | None":
        """A writer that continues after `step` and hides later lines of an interrupted run; None if not installed."""
        if find_spec("tensorboard") is None:
            return None
        from torch.utils.tensorboard import SummaryWriter

        return cls(SummaryWriter(str(folder), purge_step=step + 1))

    def add(self, step: int, values: dict[str, float | None]) -> None:
        """One point of every curve."""
        for name, value in values.items():
            if value is not None:
                self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is left."""
        self.writer.close()
