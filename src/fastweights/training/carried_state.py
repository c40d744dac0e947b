"""States of a model's layers as named tensors and back, and joined by rows of the batch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fastweights.memory import LayerState

States = list[LayerState]


def state_tensors(states: Sequence[LayerState]) -> dict[str, Tensor]:
    """`layer.field` → tensor, for every tensor of every layer's state."""
    return {f"{layer}.{name}": x for layer, state in enumerate(states) for name, x in state.tensors().items()}


def states_from_tensors(template: Sequence[LayerState], tensors: dict[str, Tensor], rows: int) -> States:
    """Rebuild layer states with `rows` sequences; `template` supplies their classes and field names."""
    expected = state_tensors(template)
    if expected.keys() != tensors.keys():
        odd = sorted(expected.keys() ^ tensors.keys())
        raise ValueError(f"states: they are those of another model; only one of the two has {', '.join(odd[:5])}")
    for name, tensor in tensors.items():
        wanted = expected[name]
        fits = (tensor.dtype, tensor.dim(), *tensor.shape[2:]) == (wanted.dtype, wanted.dim(), *wanted.shape[2:])
        if not fits or len(tensor) != rows:
            raise ValueError(f"states: {name} is that of another model, {tensor.dtype} of shape {tuple(tensor.shape)}")
    return [
        type(state).from_tensors({name: tensors[f"{layer}.{name}"] for name in state.tensors()})
        for layer, state in enumerate(template)
    ]


def join_rows(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Concatenate the tensors of several parts of a batch along its rows."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}


def all_finite(states: Sequence[LayerState]) -> bool:
    """True if every number in every state is finite."""
    return all(bool(x.isfinite().all()) for x in state_tensors(states).values() if x.is_floating_point())
