"""Training and tracing a memory: what is measured, against the definitions."""

import math
from dataclasses import replace

import pytest
import torch

from fastweights.experiments.contrast.config import ContrastConfig
from fastweights.experiments.contrast.presets import preset
from fastweights.experiments.contrast.task import ContrastTask, first_occurrences
from fastweights.experiments.families import codec
from fastweights.experiments.memories import MEMORIES
from fastweights.experiments.retrieval.reads import SoftmaxRead

pytestmark = pytest.mark.usefixtures("one_thread")


def task(memory: str) -> ContrastTask:
    run = preset("contrast", memory)
    assert isinstance(run.task, ContrastConfig)
    return ContrastTask(replace(run.task, num_keys=6, key_dim=8, longest=24), run.training)


def test_first_occurrences() -> None:
    keys = torch.tensor([[1, 2, 1, 1, 3, 2]])
    assert first_occurrences(keys).tolist() == [[True, True, False, False, True, False]]


def test_every_memory_has_its_name() -> None:
    for memory in MEMORIES:
        run = preset("contrast", memory, seed=2)
        assert run.slug == f"contrast-{memory}-S20-seed2"
        assert codec().from_plain(codec().to_plain(run)) == run


@pytest.mark.parametrize("memory", ["delta-sum", "delta-l2", "nlms-sum", "delta-attention", "sum-attention"])
def test_what_is_measured(memory: str) -> None:
    torch.manual_seed(0)
    measured = task(memory).measure_model(task(memory).build())
    writes = measured["writes"]
    assert measured["by_step"]["step"] == [1, 2, 4, 8, 16, 24]
    assert list(measured["by_length"]) == ["6", "12", "24"]
    assert all(math.isfinite(loss) for loss in measured["by_length"].values())
    assert -1 <= measured["crosstalk"] <= 1
    landing, balance = (writes["repeated"][name]["quartiles"][1] for name in ("landing", "balance"))
    if memory in ("delta-l2", "nlms-sum"):
        assert landing == pytest.approx(1, abs=1e-4)
    if memory in ("delta-sum", "nlms-sum"):
        assert balance == pytest.approx(1, abs=1e-4)
    if memory == "delta-sum":
        assert landing == pytest.approx(writes["repeated"]["key_square"]["quartiles"][1], rel=1e-3)
    if memory == "sum-attention":
        assert balance == 0
        assert "overlap" not in writes["new"]
    low, middle, high = writes["new"]["contrast"]["quartiles"]
    assert low <= middle <= high


def test_what_is_refused() -> None:
    config = preset("contrast").task
    assert isinstance(config, ContrastConfig)
    with pytest.raises(ValueError, match="longest: expected at least the training length 40, got 30"):
        replace(config, longest=30)
    with pytest.raises(ValueError, match="attention: only fast weights have writes to trace, got SoftmaxRead"):
        replace(config, attention=SoftmaxRead())
    with pytest.raises(ValueError, match="model: unknown name 'sum'"):
        preset("contrast", "sum")
    with pytest.raises(ValueError, match="rule: the name of the memory says it"):
        preset("contrast", "delta-sum", "sum")
    assert not config.is_measured({"steps": 1})
