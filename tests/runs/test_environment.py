import platform

import numpy
import pytest
import torch

from fastweights import backends
from fastweights.memory import native
from fastweights.runs import environment
from fastweights.runs.environment import Environment


def test_the_environment_is_that_of_this_process() -> None:
    here = Environment.here()
    assert here.python == platform.python_version()
    assert here.packages["torch"] == torch.__version__
    assert here.packages["numpy"] == numpy.__version__
    assert here.threads == torch.get_num_threads()
    assert here.cores >= 1


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(environment.EXTRAS, "no-such-package", "imaginary")
    rows = dict(environment.version_rows(Environment.here()))
    assert rows["no-such-package"] == "not installed; pip install 'fastweights[imaginary]'"


def test_every_backend_has_a_row_and_a_missing_one_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "unavailable", lambda: "no compiler was found")
    rows = {name: (status, note) for name, status, note in environment.backend_rows()}
    assert list(rows) == list(backends())
    assert rows["native"] == ("missing", "no compiler was found")
    assert rows["chunked"] == ("available", "auto takes it for sequences on this CPU")


def test_tiles_that_are_announced_and_missing_are_named_with_the_limit_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = environment.Environment.here()
    monkeypatch.setattr(environment, "tiles_are_missing", lambda: False)
    assert "tiles" not in dict(environment.machine_rows(here))
    monkeypatch.setattr(environment, "tiles_are_missing", lambda: True)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert dict(environment.machine_rows(here))["tiles"] == "AMX is announced but missing; ONEDNN_MAX_CPU_ISA is AVX2"
