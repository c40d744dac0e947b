"""The stream: what is measured, by a step loop written out, and that precision and cuts are what they should be."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fastweights.data.retrieval import torch_generator
from fastweights.experiments.growth.config import GrowthConfig
from fastweights.experiments.growth.presets import MEASURED_ONLY, preset
from fastweights.experiments.growth.stream import STREAM, measured_steps, run_stream, segments
from fastweights.experiments.growth.task import GrowthTask
from fastweights.experiments.memories import MEMORIES
from fastweights.runs.display import Display

pytestmark = pytest.mark.usefixtures("one_thread")


def small(memory: str, **changes: object) -> GrowthConfig:
    config = preset("growth", memory).task
    assert isinstance(config, GrowthConfig)
    return replace(config, length=60, num_keys=3, key_dim=4, value_dim=5, num_heads=1, **changes)


def test_steps_are_four_to_a_decade() -> None:
    assert measured_steps(100) == [1, 2, 3, 6, 10, 18, 32, 56, 100]
    assert measured_steps(40) == [1, 2, 3, 6, 10, 18, 32, 40]
    assert measured_steps(1) == [1]


def test_pieces_cover_the_stream_without_gaps() -> None:
    pieces = list(segments(20_000))
    assert [start for start, _, _ in pieces] == [0, *(end for _, end, _ in pieces[:-1])]
    assert pieces[-1][1] == 20_000
    assert [end for _, end, measured in pieces if measured] == measured_steps(20_000)


@pytest.mark.parametrize("memory", ["delta-sum", "delta-attention", "nlms-sum", "sum-attention", "delta-centred-l2"])
def test_equals_a_step_loop(memory: str) -> None:
    config, choice = small(memory), MEMORIES[memory]
    keys = GrowthTask(config, MEASURED_ONLY)._mapped_keys()
    found = run_stream(config, keys, seed=1)
    weights, z = torch.zeros(2, 1, 5, keys.shape[-1]), torch.zeros(2, 1, keys.shape[-1])
    last = torch.full((2, 1, 3, 5), torch.nan)
    rule = choice.rule.with_attention_normalisation() if choice.attention else choice.rule
    for start, end, measured in segments(config.length):
        generator = torch_generator(1, STREAM, start)
        chosen = torch.randint(3, (2, 1, end - start), generator=generator)
        values = torch.randn(2, 1, end - start, 5, generator=generator)
        for t in range(end - start):
            for row in range(2):
                last[row, 0, chosen[row, 0, t]] = values[row, 0, t]
            key = torch.stack([keys[row, :, chosen[row, 0, t]] for row in range(2)])
            weights = rule.step(weights, key, values[:, :, t], {"beta": torch.full((2, 1), 0.5)}, z)
            z = z + key
        if not measured:
            continue
        place = found["step"].index(end)
        reads = torch.einsum("bhvk,bhnk->bhnv", weights, keys)
        if choice.attention:
            reads = reads / torch.einsum("bhk,bhnk->bhn", z, keys)[..., None]
            assert found["normaliser"][place] == pytest.approx(z.norm(dim=-1).mean().item(), rel=1e-5)
        seen = ~last.isnan().any(-1)
        errors = ((reads - last).norm(dim=-1) / last.norm(dim=-1))[seen]
        assert found["error"][place] == pytest.approx(errors.mean().item(), rel=1e-4, abs=1e-5)
        assert found["weights"][place] == pytest.approx(weights.norm(dim=(-2, -1)).mean().item(), rel=1e-5)


def test_a_rounded_state_stops_counting_after_256_equal_keys() -> None:
    """In bfloat16 256 + 1 is 256: z of one recurring key under L2 grows no further."""
    config = replace(small("delta-attention"), length=270, num_keys=1, key_dim=2, state="bfloat16")
    keys = torch.zeros(2, 1, 1, 4)
    keys[..., 0] = 1.0
    rounded = run_stream(config, keys, seed=1)
    exact = run_stream(replace(config, state="float32"), keys, seed=1)
    assert exact["normaliser"][-1] == 270
    assert rounded["normaliser"][-1] == 256


def test_a_memory_that_overflows_is_recorded_as_such(tmp_path: Path) -> None:
    task = GrowthTask(replace(small("delta-none"), length=2000, strength=4.0), MEASURED_ONLY)
    result = task.measure(tmp_path, torch.device("cpu"), Display())
    assert result["stream"]["weights"][0] is not None
    assert result["stream"]["weights"][-1] is None
