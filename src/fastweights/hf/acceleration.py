"""Run the layers of transformers' models on this library's operator: Qwen3-Next, Mamba-2, Kimi Linear and their kin.

transformers looks its rules up as globals of the modelling file at every call. Replacing these globals serves models
that exist and models that are built later, and is undone by setting them back. Like transformers' own kernels, it
changes every model of that file. Before version 5.15 a layer of the gated delta rule keeps the functions that it was
built with: they are replaced in the layers of a model that is given, and look whether they are wanted when called.
"""

import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from torch import nn

from fastweights.hf.replacements import REPLACEMENTS, RULES
from fastweights.hf.served import Function

ARCHITECTURES = (
    "bailing_hybrid",
    "bamba",
    "falcon_h1",
    "glm5_next",
    "granitemoehybrid",
    "kimi_linear",
    "mamba2",
    "nemotron_h",
    "olmo_hybrid",
    "qwen3_5",
    "qwen3_5_moe",
    "qwen3_next",
    "qwen4_exp",
    "zamba2",
)
"""Models of transformers whose rules have been compared with ours; a version may lack some of them."""

KEPT_IN_LAYERS = {
    "chunk_gated_delta_rule": "torch_chunk_gated_delta_rule",
    "recurrent_gated_delta_rule": "torch_recurrent_gated_delta_rule",
}
"""Attributes in which layers keep a rule before transformers 5.15, and the global it was."""

_originals: dict[str, dict[str, Function]] = {}
"""The functions that were replaced, by architecture and name."""

_users: Counter[str] = Counter()
"""How many accelerations of an architecture have not been undone."""


class Acceleration:
    """What `accelerate` replaced, until `undo` or the end of its `with` block."""

    def __init__(self, layers: dict[str, int | None], models: Iterable[nn.Module] = ()) -> None:
        self.layers, self._active = layers, True
        for name in layers:
            _replace(name)
        for model in models:
            _replace_in_layers(model)

    def undo(self) -> None:
        """Put the functions of transformers back, unless another acceleration still uses the replacements."""
        if self._active:
            self._active = False
            for name in self.layers:
                _restore(name)

    def __enter__(self) -> "Acceleration":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def __repr__(self) -> str:
        counted = (name if count is None else f"{name}: {count} layers" for name, count in self.layers.items())
        return f"<{', '.join(counted)}; {'accelerated' if self._active else 'undone'}>"


class Accelerate:
    """Put the operator in place of the PyTorch rules of a model, or of an architecture by its name before loading."""

    architectures = ARCHITECTURES

    def __call__(self, *targets: nn.Module | str) -> Acceleration:
        """Accelerate models, or architectures by name; the result says what was replaced and undoes it.

        As a context manager it undoes itself. A ValueError lists what is possible if a target has nothing to replace.
        """
        if not targets:
            raise ValueError(f"accelerate: expected a model or a name; possible names: {', '.join(_possible())}")
        layers: dict[str, int | None] = {}
        for target in targets:
            layers |= {_named(target): None} if isinstance(target, str) else _counted(target)
        return Acceleration(layers, [target for target in targets if isinstance(target, nn.Module)])

    def status(self, model: nn.Module | None = None) -> dict[str, bool]:
        """Whether each architecture, or each of a model, runs on the operator now."""
        names = _possible() if model is None else _counted(model)
        return {name: name in _originals for name in names}

    def __repr__(self) -> str:
        return f"<accelerate; now: {', '.join(_originals) or 'nothing'}>"


accelerate = Accelerate()


def _module_name(architecture: str) -> str:
    return f"transformers.models.{architecture}.modeling_{architecture}"


def _possible() -> list[str]:
    """The architectures of the table that this version of transformers has, with a rule in a function of its own."""
    found = []
    for name in ARCHITECTURES:
        if find_spec(f"transformers.models.{name}") is None:
            continue
        module = find_spec(_module_name(name))
        text = "" if module is None or module.origin is None else Path(module.origin).read_text(encoding="utf-8")
        if any(f"def {rule}(" in text for rule in RULES):
            found.append(name)
    return found


def _named(architecture: str) -> str:
    if architecture not in (possible := _possible()):
        raise ValueError(f"accelerate: unknown architecture {architecture!r}; possible: {', '.join(possible)}")
    import_module(_module_name(architecture))
    return architecture


def _counted(model: nn.Module) -> dict[str, int | None]:
    """How many layers of each known architecture a model has that call a rule."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"accelerate: expected a model or the name of an architecture, got {type(model).__name__}")
    found: Counter[str] = Counter()
    for layer, architecture in _known_layers(model):
        if RULES & _names_in(type(layer)) or KEPT_IN_LAYERS.keys() & vars(layer).keys():
            found[architecture] += 1
    if not found:
        raise ValueError(
            f"accelerate: {type(model).__name__} has no layer with a rule that could be replaced; "
            f"possible: models of {', '.join(_possible())}"
        )
    return dict(found)


def _known_layers(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    known = {_module_name(name): name for name in ARCHITECTURES}
    return ((layer, known[type(layer).__module__]) for layer in model.modules() if type(layer).__module__ in known)


def _names_in(layer: type[nn.Module]) -> set[str]:
    return set(inspect.unwrap(layer.forward).__code__.co_names)


def _modelling(architecture: str) -> ModuleType:
    return sys.modules[_module_name(architecture)]


def _replace(architecture: str) -> None:
    _users[architecture] += 1
    if architecture in _originals:
        return
    module = _modelling(architecture)
    # Before version 5.15 a convolution that is not installed is None there, which layers take for an answer.
    _originals[architecture] = {name: vars(module)[name] for name in REPLACEMENTS if callable(vars(module).get(name))}
    for name, original in _originals[architecture].items():
        setattr(module, name, _while_accelerated(architecture, REPLACEMENTS[name](original), original))


def _while_accelerated(architecture: str, replacement: Function, original: Function) -> Function:
    """The replacement until it is undone, then the original: a layer may have kept it."""

    @wraps(original)
    def function(*given: Any, **named: Any) -> Any:
        return (replacement if architecture in _originals else original)(*given, **named)

    return function


def _replace_in_layers(model: nn.Module) -> None:
    """Let layers that keep the functions of the modelling file keep those that stand there now."""
    for layer, architecture in _known_layers(model):
        for attribute, name in KEPT_IN_LAYERS.items():
            if vars(layer).get(attribute) is _originals.get(architecture, {}).get(name, layer):
                setattr(layer, attribute, vars(_modelling(architecture))[name])


def _restore(architecture: str) -> None:
    _users[architecture] -= 1
    if not _users[architecture]:
        for name, original in _originals.pop(architecture).items():
            setattr(_modelling(architecture), name, original)
