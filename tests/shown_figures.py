"""Reports of a few figures and tables: drawing all of them takes a while."""

from importlib import import_module
from typing import Any

import pytest

from fastweights.experiments import EXPERIMENTS
from fastweights.experiments.records import Records
from fastweights.reporting import Drawing, Table


def show_only(monkeypatch: pytest.MonkeyPatch, **shows: tuple[str, ...]) -> None:
    """Let the report have these figures and tables, by the package of their family, and no others."""
    for package in EXPERIMENTS.values():
        family = package.rpartition(".")[2]
        monkeypatch.setattr(import_module(package), "SHOWS", shows.get(family, ()))


def tables_of(module: Any, records: Records) -> list[Table]:
    """The tables that a figure or table shows."""
    return [part for part in module.contents(records) if isinstance(part, Table)]


def drawings_of(module: Any, records: Records) -> list[Drawing]:
    """The drawings that a figure or table shows."""
    return [part for part in module.contents(records) if isinstance(part, Drawing)]
