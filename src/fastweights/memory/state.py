"""The state of a fast-weight memory: all that has to be kept of the past, of a size that does not grow."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fastweights.shapes import Normaliser, Steps, Strength, Weights

FORMAT = "fastweights-state-1"
"""What kind of file `save` writes; a later kind gets another name."""

NO_SCALE = -1e30
"""The `log_scale` of an empty memory: below any that occurs, and finite so that differences are defined."""


@dataclass(frozen=True, eq=False)
class FastWeightState:
    """W, with z where attention normalisation is used, and how many steps each sequence has seen.

    `log_scale` is M of stabilised FAVOR+: the stored weights and normaliser are exp(-M) times the true ones
    (docs/math.md#stabilised-favor).
    """

    weights: Weights
    normaliser: Normaliser | None
    steps: Steps
    log_scale: Strength | None = None

    @classmethod
    def zeros(
        cls,
        batch: int,
        heads: int,
        value_dim: int,
        feature_dim: int,
        *,
        normaliser: bool = False,
        log_scale: bool = False,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> "FastWeightState":
        """An empty memory: W = 0 and z = 0."""
        weights = torch.zeros(batch, heads, value_dim, feature_dim, dtype=dtype, device=device)
        return cls(
            weights=weights,
            normaliser=weights.new_zeros(batch, heads, feature_dim) if normaliser else None,
            steps=torch.zeros(batch, dtype=torch.int64, device=device),
            log_scale=weights.new_full((batch, heads), NO_SCALE) if log_scale else None,
        )

    def detach(self) -> "FastWeightState":
        """The same state, cut off from the graph: where back-propagation through time ends."""
        return self._map(Tensor.detach)

    def clone(self) -> "FastWeightState":
        """A copy with storage of its own."""
        return self._map(Tensor.clone)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "FastWeightState":
        """The state on another device or, its floating-point parts, in another precision."""
        return self._map(lambda x: x.to(device=device, dtype=dtype if x.is_floating_point() else None))

    def select(self, rows: Tensor) -> "FastWeightState":
        """The states of some sequences of the batch, by index or by boolean mask."""
        return self._map(lambda x: x[rows.to(x.device)])

    def reorder(self, rows: Tensor) -> "FastWeightState":
        """Row i of the result is row `rows[i]`: what beam search does to its hypotheses."""
        if rows.dtype == torch.bool or rows.dim() != 1:
            raise ValueError(f"rows: expected a vector of indices, got {rows.dtype} of shape {tuple(rows.shape)}")
        return self._map(lambda x: x.index_select(0, rows.to(x.device)))

    def __eq__(self, other: object) -> bool:
        """Whether every part is the same, bit for bit (a NaN equals a NaN)."""
        if not isinstance(other, FastWeightState):
            return NotImplemented
        return self._tensors().keys() == other._tensors().keys() and all(
            x.dtype == y.dtype and x.shape == y.shape and torch.equal(_bits(x), _bits(y))
            for x, y in zip(self._tensors().values(), other._tensors().values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def save(self, path: str | Path) -> None:
        """Write a safetensors file; a file already there is replaced in one step or not at all."""
        path = Path(path)
        tensors = {name: x.detach().contiguous() for name, x in self._tensors().items()}
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".partial")
        os.close(handle)
        try:
            save_file(tensors, partial, metadata={"format": FORMAT, "sha256": _digest(tensors)})
            os.replace(partial, path)
        finally:
            Path(partial).unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str = "cpu") -> "FastWeightState":
        """Read what `save` wrote; a ValueError if it is anything else, or not all of it, or changed since."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata, tensors = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path}: not a readable state file ({error})") from error
        if metadata.get("format") != FORMAT:
            raise ValueError(f"{path}: expected the format {FORMAT!r} of a state, got {metadata.get('format')!r}")
        known = {field.name for field in fields(cls)}
        if not {"weights", "steps"} <= tensors.keys() <= known:
            raise ValueError(f"{path}: expected the tensors {sorted(known)} of a state, got {sorted(tensors)}")
        if metadata.get("sha256") != _digest(tensors):
            raise ValueError(f"{path}: damaged: the contents do not have the checksum they were saved with")
        state = cls(tensors["weights"], tensors.get("normaliser"), tensors["steps"], tensors.get("log_scale"))
        state._check(str(path))
        return state.to(device=device)

    def _check(self, source: str) -> None:
        if self.weights.dim() != 4:
            raise ValueError(f"{source}: weights must be (b, h, v, k), got shape {tuple(self.weights.shape)}")
        b, h, _, k = self.weights.shape
        wanted = {"normaliser": (b, h, k), "steps": (b,), "log_scale": (b, h)}
        for name, tensor in self._tensors().items():
            if name in wanted and tuple(tensor.shape) != wanted[name]:
                raise ValueError(f"{source}: {name} must have shape {wanted[name]}, got {tuple(tensor.shape)}")
            if tensor.is_floating_point() != (name != "steps"):
                raise ValueError(f"{source}: {name} cannot be of dtype {tensor.dtype}")

    def _tensors(self) -> dict[str, Tensor]:
        return {f.name: x for f in fields(self) if (x := getattr(self, f.name)) is not None}

    def _map(self, function: Callable[[Tensor], Tensor]) -> "FastWeightState":
        changed = {name: function(x) for name, x in self._tensors().items()}
        return FastWeightState(
            changed["weights"], changed.get("normaliser"), changed["steps"], changed.get("log_scale")
        )


def _digest(tensors: dict[str, Tensor]) -> str:
    """SHA-256 of names, shapes, dtypes and every bit: safetensors itself does not notice a changed one."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        digest.update(_bits(tensor.cpu()).numpy().tobytes())
    return digest.hexdigest()


def _bits(x: Tensor) -> Tensor:
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.contiguous().view(integers[x.element_size()])
