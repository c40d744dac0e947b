"""Reports of a few figures and tables: drawing all of them takes a while."""

from importlib import import_module

import pytest

from fastweights.experiments import EXPERIMENTS


def show_only(monkeypatch: pytest.MonkeyPatch, **shows: tuple[str, ...]) -> None:
    """Let the report have these figures and tables, by the package of their family, and no others."""
    for package in EXPERIMENTS.values():
        family = package.rpartition(".")[2]
        monkeypatch.setattr(import_module(package), "SHOWS", shows.get(family, ()))
