"""Recorded transitions give what the library gives, for any sequence of writes."""

import pytest
import torch

from fastweights.memory import FastWeightState, WriteInputs, run_rule
from fastweights.memory.whole_sequence import read_memory
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.figure.transitions import recorded
from fastweights.playground.keys import KEY_DIM, colour_keys


@pytest.mark.parametrize("rule", ["sum", "delta", "normalised-step", "gated-delta"])
@pytest.mark.parametrize("feature_map", ["identity", "dpfp-1"])
def test_a_random_history_is_that_of_the_library(rule: str, feature_map: str) -> None:
    choice, similarity = MemoryChoice(rule, feature_map, "l2"), 0.3
    transitions = recorded(choice, similarity)
    order = torch.randint(8, (12,))
    values = torch.randn(12, 5, dtype=torch.float64)
    reads = torch.zeros(5, 8, dtype=torch.float64)
    for key, value in zip(order.tolist(), values, strict=True):
        reads = transitions.write(reads, key, value)
    keys = choice.mapping(KEY_DIM)(colour_keys(similarity))[0]
    empty = FastWeightState.zeros(1, 1, 5, keys.shape[-1], dtype=torch.float64)
    ones = torch.ones(1, 1, 12, dtype=torch.float64)
    writes = WriteInputs(keys[:, :, order], values[None, None], {"beta": ones, "alpha": ones})
    after = run_rule(choice.update_rule, writes, writes.keys, empty)[1]
    expected = read_memory(choice.update_rule, after, keys, None)[0, 0].T
    torch.testing.assert_close(reads, expected, rtol=0, atol=1e-9)


def test_what_is_not_linear_is_refused() -> None:
    with pytest.raises(ValueError, match="not linear in W"):
        recorded(MemoryChoice("sum", "relu", "attention"), 0.0)
