"""What stands in for transformers' rules: when it hands over to them."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights.hf.replacements import REPLACEMENTS, RULES


def original(*args: Any, **named: Any) -> tuple[Any, dict[str, Any]]:
    return "the original", named


def delta_arguments(device: str = "cpu") -> tuple[list[Tensor], dict[str, Tensor]]:
    q, k, v = (torch.randn(1, 5, 2, 4, device=device) for _ in range(3))
    return [q, k, v], {"g": -torch.rand(1, 5, 2, device=device), "beta": torch.rand(1, 5, 2, device=device)}


def mamba_arguments(device: str = "cpu") -> list[Tensor | int]:
    x, dt = torch.randn(1, 5, 2, 4, device=device), torch.rand(1, 5, 2, device=device)
    keys = torch.randn(1, 5, 1, 3, device=device)
    return [x, dt, -torch.ones(2, device=device), keys, keys, 16]


def test_off_the_cpu_the_original_is_called() -> None:
    args, named = delta_arguments("meta")
    for name in ("torch_chunk_gated_delta_rule", "recurrent_kimi_delta_attention"):
        assert REPLACEMENTS[name](original)(*args, **named, output_final_state=True)[0] == "the original"
    assert REPLACEMENTS["mamba2_chunk_scan"](original)(*mamba_arguments("meta"))[0] == "the original"
    x = torch.randn(1, 2, 4, device="meta")
    assert REPLACEMENTS["mamba2_selective_state_update"](original)(x[..., None], x, x, x, x, x)[0] == "the original"
    assert REPLACEMENTS["mamba2_split_conv1d_scan_combined"](original)(x)[0] == "the original"
    assert REPLACEMENTS["mamba2_split_conv1d_scan_combined"](original)(torch.randn(1, 2)) is None


def test_in_an_export_the_original_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    args, named = delta_arguments()
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    assert REPLACEMENTS["torch_chunk_gated_delta_rule"](original)(*args, **named)[0] == "the original"


def test_packed_rows_that_continue_a_state_are_the_originals_to_refuse() -> None:
    args, named = delta_arguments()
    state, ends = torch.zeros(1, 2, 4, 4), torch.tensor([0, 2, 5])
    rule = REPLACEMENTS["torch_chunk_gated_delta_rule"](original)
    called, given = rule(*args, **named, initial_state=state, cu_seqlens=ends)
    assert called == "the original"
    assert given["cu_seqlens"] is ends
    scan = REPLACEMENTS["mamba2_chunk_scan"](original)
    index = torch.tensor([[0, 0, 1, 1, 1]])
    assert scan(*mamba_arguments(), initial_states=torch.zeros(1, 2, 4, 3), seq_idx=index)[0] == "the original"


def test_a_single_step_is_ours_where_the_state_needs_no_copy() -> None:
    args, named = delta_arguments()
    one = [x[:, :1] for x in args]
    gates = {name: x[:, :1] for name, x in named.items()}
    rule, state = REPLACEMENTS["torch_recurrent_gated_delta_rule"](original), torch.randn(1, 2, 4, 4)
    assert rule(*one, **gates, initial_state=state)[0] == "the original"
    assert isinstance(rule(*one, **gates, initial_state=state.mT)[0], Tensor)
    assert isinstance(rule(*args, **named, initial_state=state)[0], Tensor)


def step_arguments(heads: int) -> list[Tensor]:
    state, x, key = torch.zeros(1, heads, 64, 32), torch.randn(1, heads, 64), torch.randn(1, 1, 32)
    return [
        state,
        x,
        torch.rand(1, heads, 1).expand(-1, -1, 64),
        (-torch.rand(heads, 1, 1)).expand(-1, 64, 32),
        key,
        key,
    ]


def test_steps_of_small_states_or_with_a_step_size_per_channel_are_the_originals() -> None:
    step = REPLACEMENTS["mamba2_selective_state_update"](original)
    small, large = step_arguments(7), step_arguments(8)
    assert step(*small)[0] == "the original"
    assert isinstance(step(*large), Tensor)
    assert large[0].any()
    large[2] = large[2].contiguous()
    assert step(*large)[0] == "the original"


def test_a_large_step_is_that_of_transformers() -> None:
    from transformers.models.mamba2.modeling_mamba2 import mamba2_selective_state_update

    args = step_arguments(8)
    args[0].normal_()
    theirs = [args[0].clone(), *args[1:]]
    expected = mamba2_selective_state_update(*theirs, dt_softplus=True)
    found = REPLACEMENTS["mamba2_selective_state_update"](original)(*args, dt_softplus=True)
    assert_close(found, expected)
    assert_close(args[0], theirs[0])


def test_arguments_that_only_other_layers_need_are_ignored() -> None:
    args, named = delta_arguments()
    rule = REPLACEMENTS["torch_chunk_gated_delta_rule"](original)
    expected = rule(*args, **named)[0]
    assert torch.equal(rule(*args, **named, chunk_size=16, position_ids=torch.arange(5), use_cache=True)[0], expected)


def test_the_wrapped_function_is_known() -> None:
    assert all(REPLACEMENTS[name](original).__wrapped__ is original for name in REPLACEMENTS)
    assert REPLACEMENTS.keys() > RULES
