"""The families of experiments, imported when they are needed, and runs of any of them as plain data."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from fastweights.config import ConfigCodec, closest, unknown
from fastweights.experiments import EXPERIMENTS, shown_modules, split_preset
from fastweights.models.attention import REGISTRIES
from fastweights.training.run import Run, RunCodec
from fastweights.training.task import TaskConfig


def shown_module(name: str) -> Any:
    """The module of a figure or table: TITLE, TEXT, `runs(options)`, and what it shows."""
    modules = shown_modules()
    if name not in modules:
        raise ValueError(f"figure or table: {unknown('name', name, modules)}")
    return import_module(modules[name])


def family_modules(name: str) -> Iterator[ModuleType]:
    """The modules of this name of all families that have one."""
    for package in EXPERIMENTS.values():
        if find_spec(f"{package}.{name}") is not None:
            yield import_module(f"{package}.{name}")


def preset_named(name: str) -> tuple[Run, Any]:
    """A model that `fastweights train` offers, and the module of its family that opens its data (`on_data`)."""
    modules = {preset: module for module in family_modules("presets") for preset in getattr(module, "PRESETS", ())}
    if name in modules:
        return modules[name].PRESETS[name], modules[name]
    meant = closest(name, modules)
    sizes = [size for module in dict.fromkeys(modules.values()) for size in module.SIZES]
    if meant is None:
        possible = ", ".join(f"{size}-…" for size in sizes)
        raise ValueError(f"preset: unknown name {name!r}; possible: {possible}; `fastweights list` names them all")
    size, _ = split_preset(meant, sizes)
    raise ValueError(
        f"preset: {unknown('name', name, [other for other in modules if split_preset(other, sizes)[0] == size])}"
    )


def module_for(task: TaskConfig, name: str) -> Any:
    """The module of this name of the family whose task this is; None if the family has none."""
    package = next(package for kind, package in EXPERIMENTS.items() if isinstance(task, codec().task_type(kind)))
    return import_module(f"{package}.{name}") if find_spec(f"{package}.{name}") is not None else None


def codec() -> RunCodec:
    """Reads and writes the runs of every family."""
    return _codec(tuple(EXPERIMENTS.items()))


@cache
def _codec(families: tuple[tuple[str, str], ...]) -> RunCodec:
    configs = {name: import_module(f"{package}.config") for name, package in families}
    registries: dict[type, Any] = {**REGISTRIES, TaskConfig: {name: c.CONFIG for name, c in configs.items()}}
    constants: dict[type, Any] = {}
    for module in configs.values():
        registries |= getattr(module, "REGISTRIES", {})
        constants |= getattr(module, "CONSTANTS", {})
    return RunCodec(ConfigCodec(registries, constants))
