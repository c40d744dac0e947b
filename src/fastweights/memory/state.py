"""The state of a fast-weight memory: its size does not grow with the sequence."""

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from fastweights.files import write_whole
from fastweights.memory.layer_state import LayerState
from fastweights.shapes import Normaliser, PerHead, Steps, Weights

FORMAT = "fastweights-state-1"
"""The file format that `save` writes."""

NO_SCALE = -1e30
"""The `log_scale` of an empty memory: below any that occurs, and finite so that differences are defined."""


@dataclass(frozen=True, eq=False)
class FastWeightState(LayerState):
    """W, with z where attention normalisation is used, and how many steps each sequence has seen.

    `log_scale` is M of stabilised FAVOR+: the stored weights and normaliser are exp(-M) times the true ones
    (docs/math.md#stabilised-favor). `convolution` holds the last inputs of a short convolution, if the layer has one.
    """

    weights: Weights
    normaliser: Normaliser | None
    steps: Steps
    log_scale: PerHead | None = None
    convolution: Float[Tensor, "b w c"] | None = None

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
            log_scale=weights.new_full((batch, heads), max(NO_SCALE, torch.finfo(dtype).min)) if log_scale else None,
        )

    def __eq__(self, other: object) -> bool:
        """True if all tensors are equal, bit for bit (a NaN equals a NaN)."""
        if not isinstance(other, FastWeightState):
            return NotImplemented
        return self.tensors().keys() == other.tensors().keys() and all(
            x.dtype == y.dtype and x.shape == y.shape and torch.equal(_bits(x), _bits(y))
            for x, y in zip(self.tensors().values(), other.tensors().values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def save(self, path: str | Path) -> None:
        """Write a safetensors file; a file already there is replaced in one step or not at all."""
        tensors = {name: x.detach().contiguous() for name, x in self.tensors().items()}
        write_whole(Path(path), save(tensors, metadata={"format": FORMAT, "sha256": _digest(tensors)}))

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str = "cpu") -> "FastWeightState":
        """Read a file that `save` wrote; raise a ValueError if it has another format, is truncated or was changed."""
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
        state = cls.from_tensors(tensors)
        state._check(str(path))
        return state.to(device=device)

    def _check(self, source: str) -> None:
        if self.weights.dim() != 4:
            raise ValueError(f"{source}: weights must be (b, h, v, k), got shape {tuple(self.weights.shape)}")
        b, h, _, k = self.weights.shape
        wanted = {"normaliser": (b, h, k), "steps": (b,), "log_scale": (b, h)}
        for name, tensor in self.tensors().items():
            if name in wanted and tuple(tensor.shape) != wanted[name]:
                raise ValueError(f"{source}: {name} must have shape {wanted[name]}, got {tuple(tensor.shape)}")
            if name == "convolution" and (tensor.dim() != 3 or tensor.shape[0] != b):
                raise ValueError(f"{source}: convolution must be ({b}, w, c), got shape {tuple(tensor.shape)}")
            if tensor.is_floating_point() != (name != "steps"):
                raise ValueError(f"{source}: {name} cannot be of dtype {tensor.dtype}")


def _digest(tensors: dict[str, Tensor]) -> str:
    """SHA-256 of names, shapes, dtypes and contents: safetensors itself does not detect a flipped bit."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        digest.update(_bits(tensor.cpu()).numpy().tobytes())
    return digest.hexdigest()


def _bits(x: Tensor) -> Tensor:
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.contiguous().view(integers[x.element_size()])
