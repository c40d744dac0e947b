"""The sum rule at once equals the scan: reads, final states and gradients, short sequences and long ones."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights.memory import AttentionNormalisation, FastWeightState, WriteInputs, run_rule
from fastweights.memory.whole_sequence import attend, is_short, read_memory, write_all
from fastweights.update_rules import SumRule

EXACT = {"rtol": 1e-10, "atol": 1e-12}


def inputs(steps: int, queries: int, masked: bool, scaled: bool) -> tuple[WriteInputs, Tensor]:
    """Positive keys and queries, some of them zero, with scales from e^-30 to e^30."""
    keys, q = torch.rand(2, 3, steps, 6).double(), torch.rand(2, 3, queries, 6).double()
    values = torch.randn(2, 3, steps, 4).double()
    keys[0, 0, : steps // 2] = 0
    mask = torch.rand(2, steps) > 0.3 if masked else None
    scales = torch.linspace(-30, 30, steps)[torch.randperm(steps)].double().expand(2, 3, -1) if scaled else None
    for tensor in (keys, q, values):
        tensor.requires_grad_()
    return WriteInputs(keys, values, {}, mask, scales), q


def empty(scaled: bool, normalised: bool = True) -> FastWeightState:
    return FastWeightState.zeros(2, 3, 4, 6, normaliser=normalised, log_scale=scaled, dtype=torch.float64)


@pytest.mark.parametrize("steps", [1, 5, 40])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("normalised", [False, True])
def test_reads_are_those_of_the_scan(steps: int, masked: bool, scaled: bool, causal: bool, normalised: bool) -> None:
    if scaled and not normalised:
        pytest.skip("reads depend on the scale then")
    writes, queries = inputs(steps, steps if causal else steps + 2, masked, scaled)
    normalisation = AttentionNormalisation() if normalised else None
    expected, _ = run_rule(
        SumRule(),
        writes,
        queries,
        empty(scaled, normalised),
        attention_normalisation=normalisation,
        causal=causal,
        backend="recurrent",
    )
    found = attend(writes, queries, normalised=normalised, causal=causal)
    if masked and causal:
        # What a padded step reads is of no use to anybody.
        expected, found = expected * writes.mask[:, None, :, None], found * writes.mask[:, None, :, None]
    assert_close(found, expected, **EXACT)
    leaves = (writes.keys, writes.values, queries)
    gradient = torch.randn_like(found)
    for one, other in zip(
        torch.autograd.grad(found, leaves, gradient), torch.autograd.grad(expected, leaves, gradient), strict=True
    ):
        assert_close(one, other, **EXACT)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_final_state_is_that_of_the_scan(masked: bool, scaled: bool) -> None:
    normalisation = AttentionNormalisation()
    state, found = empty(scaled), empty(scaled)
    for steps in (7, 1, 12):
        writes, queries = inputs(steps, steps, masked, scaled)
        _, state = run_rule(
            SumRule(), writes, queries, state, attention_normalisation=normalisation, backend="recurrent"
        )
        found = write_all(writes, found)
        for name, tensor in state.tensors().items():
            assert_close(found.tensors()[name], tensor, **EXACT)
    queries = torch.rand(2, 3, 5, 6).double()
    nothing = WriteInputs(
        queries[:, :, :0], torch.zeros(2, 3, 0, 4).double(), {}, None, queries[:, :, :0, 0] if scaled else None
    )
    expected, _ = run_rule(SumRule(), nothing, queries, state, attention_normalisation=normalisation, causal=False)
    assert_close(read_memory(SumRule(), found, queries, normalisation), expected, **EXACT)


def test_a_memory_without_anything_reads_zero() -> None:
    writes, queries = inputs(4, 4, False, True)
    writes = writes._replace(mask=torch.zeros(2, 4, dtype=torch.bool))
    for causal in (False, True):
        assert torch.equal(attend(writes, queries, normalised=True, causal=causal), torch.zeros(2, 3, 4, 4).double())


def test_tiny_scales_before_huge_ones_do_not_vanish() -> None:
    """A query that sees only keys of scale e^-80 reads them, whatever comes later."""
    keys, values = torch.ones(1, 1, 2, 3), torch.tensor([[[[5.0], [7.0]]]])
    writes = WriteInputs(keys, values, {}, None, torch.tensor([[[-80.0, 80.0]]]))
    assert attend(writes, keys, normalised=True, causal=True).flatten().tolist() == [5.0, 7.0]


def test_what_is_short() -> None:
    """17 tokens with 128 features and 32 values: 17·17·160 = 46,240 against 34·4096 = 139,264 products."""
    assert is_short(17, 17, 128, 32)
    assert is_short(51, 51, 128, 32)
    assert not is_short(52, 52, 128, 32)
    assert not is_short(17, 17, 16, 16)
