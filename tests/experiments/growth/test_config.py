"""Streams as values: names, and what is refused."""

import pytest

from fastweights.experiments.families import codec
from fastweights.experiments.growth.config import GrowthConfig
from fastweights.experiments.growth.presets import preset
from fastweights.experiments.memories import MEMORIES
from fastweights.update_rules import GatedDeltaRule


def test_every_memory_has_its_name() -> None:
    for memory in MEMORIES:
        run = preset("growth", memory, state="bfloat16")
        assert run.slug == f"growth-{memory}-bfloat16-seed1"
        assert codec().from_plain(codec().to_plain(run)) == run


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="length: expected at least 1, got 0"):
        GrowthConfig(0)
    with pytest.raises(ValueError, match="a write strength and no other gate, got alpha"):
        GrowthConfig(10, update_rule=GatedDeltaRule())
    with pytest.raises(ValueError, match="model: unknown name 'delta-summ'"):
        preset("growth", "delta-summ")
    with pytest.raises(ValueError, match="rule: the name of the memory says it"):
        preset("growth", "delta-sum", "sum")
    with pytest.raises(ValueError, match="no columns 'stream'"):
        GrowthConfig(10).check_result({})
