"""The base class of all layer states: a state goes into a layer, the next one comes out, and layers keep nothing."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_type_hints

import torch
from torch import Tensor
from torch.utils._pytree import GetAttrKey, register_pytree_node

from fastweights.shapes import Steps

State = TypeVar("State", bound="LayerState")


@dataclass(frozen=True, eq=False)
class LayerState:
    """A dataclass of tensors, or None, whose first dimension is the batch."""

    grows: ClassVar[bool] = False
    """True if the state grows with every step."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Register every state as a tree of its tensors, for torch.export, torch.func and `tree_map`."""
        super().__init_subclass__(**options)
        register_pytree_node(
            cls,
            _flatten,
            lambda tensors, names: _unflatten(cls, tensors, names),
            serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
            flatten_with_keys_fn=_flatten_with_keys,
        )

    if TYPE_CHECKING:
        # At run time the base class must not have it: the dataclasses below would take it for a default value.
        @property
        def steps(self) -> Steps:
            """How many real steps each sequence has seen."""

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the state by the name of their field, without those that are None."""
        return {field.name: x for field in fields(self) if (x := getattr(self, field.name)) is not None}

    @classmethod
    def from_tensors(cls: type[State], tensors: Mapping[str, Tensor]) -> State:
        """The state with these tensors, as `tensors` gave them; a ValueError if they are those of another state."""
        optional = {name for name, hint in get_type_hints(cls).items() if type(None) in get_args(hint)}
        names = {field.name for field in fields(cls)}
        if not names - optional <= tensors.keys() <= names:
            raise ValueError(f"{cls.__name__}: expected the tensors {sorted(names)}, got {sorted(tensors)}")
        return cls(**{name: tensors.get(name) for name in names})

    def detach(self: State) -> State:
        """The same state, cut off from the graph: where back-propagation through time ends."""
        return self._map(Tensor.detach)

    def clone(self: State) -> State:
        """A copy with storage of its own."""
        return self._map(Tensor.clone)

    def to(self: State, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> State:
        """The state on another device or, its floating-point parts, in another precision."""
        return self._map(lambda x: x.to(device=device, dtype=dtype if x.is_floating_point() else None))

    def select(self: State, indices: Tensor) -> State:
        """The states of some sequences of the batch, by index or by boolean mask."""
        return self._map(lambda x: x[indices.to(x.device)])

    def reorder(self: State, indices: Tensor) -> State:
        """Sequence i of the result is sequence `indices[i]`: what beam search does to its hypotheses."""
        if indices.dtype == torch.bool or indices.dim() != 1:
            raise ValueError(
                f"indices: expected a vector of indices, got {indices.dtype} of shape {tuple(indices.shape)}"
            )
        return self._map(lambda x: x.index_select(0, indices.to(x.device)))

    def _map(self: State, function: Callable[[Tensor], Tensor]) -> State:
        return replace(self, **{name: function(x) for name, x in self.tensors().items()})


def _flatten(state: LayerState) -> tuple[list[Any], list[str]]:
    tensors = state.tensors()
    return list(tensors.values()), list(tensors)


def _flatten_with_keys(state: LayerState) -> tuple[list[tuple[Any, Any]], list[str]]:
    tensors = state.tensors()
    return [(GetAttrKey(name), x) for name, x in tensors.items()], list(tensors)


def _unflatten(cls: type[LayerState], leaves: Iterable[Any], names: list[str]) -> LayerState:
    """The state with these leaves, which a tracer may have put in the place of tensors: nothing is checked."""
    given, state = dict(zip(names, leaves, strict=True)), object.__new__(cls)
    for field in fields(cls):
        object.__setattr__(state, field.name, given.get(field.name))
    return state
