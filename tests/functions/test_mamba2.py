"""Mamba-2's rule under the names of mamba-ssm."""

from inspect import signature

import pytest
import torch
from torch import Tensor

from fastweights.functions import mamba_chunk_scan_combined, selective_state_update
from rule_loops import gradients, mamba2_by_hand, random_sequence


def given(groups: int = 2, steps: int = 7, **options: torch.dtype) -> dict[str, Tensor]:
    shapes = {"x": (2, steps, 4, 3), "dt": (2, steps, 4), "A": (4,), "B": (2, steps, groups, 5)}
    shapes |= {"C": (2, steps, groups, 5), "D": (4,), "dt_bias": (4,), "initial_states": (2, 4, 3, 5)}
    drawn = random_sequence(shapes, **options)
    drawn["A"] = -drawn["A"].detach().exp().requires_grad_()
    return {name: x.detach().requires_grad_() for name, x in drawn.items()}


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("limit", [(0.0, float("inf")), (0.3, 0.9)])
def test_it_is_the_loop(groups: int, limit: tuple[float, float]) -> None:
    inputs = given(groups)
    ours = mamba_chunk_scan_combined(**inputs, dt_softplus=True, dt_limit=limit, return_final_states=True)
    hand = mamba2_by_hand(**inputs, limit=limit)
    torch.testing.assert_close(ours, hand, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(gradients(ours, inputs), gradients(hand, inputs), rtol=1e-10, atol=1e-12)


def test_negative_step_sizes_are_clamped_to_zero_and_do_nothing() -> None:
    inputs = given() | {"dt": -torch.ones(2, 7, 4, dtype=torch.float64), "dt_bias": None, "D": None}
    _, final = mamba_chunk_scan_combined(**inputs, return_final_states=True)
    assert torch.equal(final, inputs["initial_states"])


def test_the_gate_multiplies_and_d_may_be_per_channel() -> None:
    inputs = given()
    more = random_sequence({"z": (2, 7, 4, 3), "D": (4, 3)})
    ours = mamba_chunk_scan_combined(**inputs | more, dt_softplus=True, return_final_states=True)
    torch.testing.assert_close(ours, mamba2_by_hand(**inputs | more), rtol=1e-12, atol=1e-13)


def test_where_the_index_changes_a_sequence_begins() -> None:
    inputs = given()
    del inputs["initial_states"]
    index = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 2, 2]], dtype=torch.int32)
    reads, final = mamba_chunk_scan_combined(**inputs, seq_idx=index, dt_softplus=True, return_final_states=True)
    for row, cut in enumerate((3, 5)):
        for part in (slice(cut), slice(cut, 7)):
            one = {name: x if x.dim() == 1 else x[row : row + 1, part] for name, x in inputs.items()}
            read, last = mamba_chunk_scan_combined(**one, dt_softplus=True, return_final_states=True)
            torch.testing.assert_close(reads[row : row + 1, part], read, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(final[row : row + 1], last, rtol=1e-12, atol=1e-13)


def one_step(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The arguments of `selective_state_update` for the first step, expanded as models do."""
    first = {name: x[:, 0].detach() for name, x in inputs.items() if name in ("x", "dt", "B", "C")}
    plain = {name: inputs[name].detach() for name in ("A", "D", "dt_bias")}
    return {
        "state": inputs["initial_states"].detach().clone(),
        "x": first["x"],
        "dt": first["dt"][..., None].expand(-1, -1, 3),
        "A": plain["A"][:, None, None].expand(-1, 3, 5),
        "B": first["B"],
        "C": first["C"],
        "D": plain["D"][:, None].expand(-1, 3),
        "dt_bias": plain["dt_bias"][:, None].expand(-1, 3),
    }


@pytest.mark.parametrize("groups", [1, 2])
def test_a_step_is_the_loop_and_changes_the_state(groups: int) -> None:
    inputs = given(groups, steps=1)
    step = one_step(inputs)
    gate = random_sequence({"z": (2, 1, 4, 3)})["z"]
    read = selective_state_update(**step, z=gate[:, 0], dt_softplus=True)
    expected, state = mamba2_by_hand(**inputs, z=gate)
    torch.testing.assert_close(read, expected[:, 0], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(step["state"], state, rtol=1e-12, atol=1e-13)


def by_channel(state: Tensor, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:  # noqa: N803
    """W_cn ← exp(A_cn Δ_c) W_cn + Δ_c x_c B_n,  y_c = Σ_n W_cn C_n for every channel c."""
    new = (A * dt[..., None]).exp() * state + (dt * x)[..., None] * B[:, None]
    return torch.einsum("bcn,bn->bc", new, C), new


def test_a_step_of_mamba_1_has_a_step_size_per_channel_and_no_heads() -> None:
    given = random_sequence({"state": (2, 6, 5), "x": (2, 6), "dt": (2, 6), "A": (6, 5), "B": (2, 5), "C": (2, 5)})
    given = {name: x.detach() for name, x in given.items()} | {"A": -given["A"].detach().exp()}
    more = {name: torch.randn(6, dtype=torch.float64) for name in ("D", "dt_bias")}
    gate = torch.randn(2, 6, dtype=torch.float64)
    step = torch.nn.functional.softplus(given["dt"] + more["dt_bias"])
    read, state = by_channel(**given | {"dt": step})
    found = selective_state_update(**given, **more, z=gate, dt_softplus=True)
    expected = (read + more["D"] * given["x"]) * torch.nn.functional.silu(gate)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(given["state"], state, rtol=1e-12, atol=1e-13)


def test_a_step_that_is_not_expanded_by_strides_is_the_same() -> None:
    step = one_step(given(groups=2, steps=1))
    copied = {name: x.contiguous().clone() for name, x in step.items()}
    torch.testing.assert_close(selective_state_update(**copied), selective_state_update(**step))
    torch.testing.assert_close(copied["state"], step["state"])


def test_the_final_states_of_packed_sequences() -> None:
    inputs = {name: x if x.dim() == 1 else x[:1] for name, x in given().items() if name != "initial_states"}
    index, ends = torch.tensor([[0, 0, 0, 1, 1, 1, 1]]), torch.tensor([0, 3, 7])
    named = {"seq_idx": index, "cu_seqlens": ends, "dt_softplus": True, "return_varlen_states": True}
    reads, every = mamba_chunk_scan_combined(**inputs, **named)
    again, final, also = mamba_chunk_scan_combined(**inputs, **named, return_final_states=True)
    assert torch.equal(final, every[-1:])
    assert torch.equal(also, every)
    assert torch.equal(again, reads)
    for row, part in enumerate((slice(3), slice(3, 7))):
        one = {name: x if x.dim() == 1 else x[:, part] for name, x in inputs.items()}
        read, last = mamba_chunk_scan_combined(**one, dt_softplus=True, return_final_states=True)
        torch.testing.assert_close(reads[:, part], read, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(every[row : row + 1], last, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cu_seqlens": [0, 7]}, "cu_seqlens: expected with return_varlen_states=True only"),
        ({"return_varlen_states": True}, "return_varlen_states: expected cu_seqlens and seq_idx"),
        ({"return_varlen_states": True, "cu_seqlens": [0, 4, 7]}, "places where seq_idx changes, got"),
        ({"return_varlen_states": True, "cu_seqlens": [0, 3, 3, 7]}, "places where seq_idx changes, got"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(options, message: str) -> None:
    inputs = {name: x if x.dim() == 1 else x[:1] for name, x in given().items() if name != "initial_states"}
    if "cu_seqlens" in options:
        inputs["seq_idx"] = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    with pytest.raises(ValueError, match=message):
        mamba_chunk_scan_combined(**inputs, **options)


def test_groups_that_do_not_divide_the_heads_are_refused() -> None:
    step = one_step(given(groups=3, steps=1))
    with pytest.raises(ValueError, match="number of groups that divides 4 heads, got 3"):
        selective_state_update(**step)


def test_arguments_have_the_order_of_mamba_ssm() -> None:
    order = (
        "x dt A B C chunk_size D z dt_bias initial_states seq_idx cu_seqlens dt_softplus dt_limit return_final_states"
    )
    assert list(signature(mamba_chunk_scan_combined).parameters) == [*order.split(), "return_varlen_states"]
    step = "state x dt A B C D z dt_bias dt_softplus"
    assert list(signature(selective_state_update).parameters) == step.split()


def test_it_is_the_function_of_transformers() -> None:
    from transformers.models.mamba2 import modeling_mamba2

    inputs = given(steps=70, dtype=torch.float32)
    values = [inputs.pop(letter) for letter in ("x", "dt", "A", "B", "C")]
    named = {"chunk_size": 16, "dt_softplus": True, "return_final_states": True}
    ours = mamba_chunk_scan_combined(*values, **inputs, **named)
    stock = modeling_mamba2.mamba2_chunk_scan(*values, **inputs, **named)
    torch.testing.assert_close(ours, stock, rtol=1e-5, atol=1e-5)
    everything = inputs | dict(zip(("x", "dt", "A", "B", "C"), values, strict=True))
    torch.testing.assert_close(gradients(ours, everything), gradients(stock, everything), rtol=1e-3, atol=1e-3)
    step = one_step(given(steps=1, dtype=torch.float32))
    theirs = step | {"state": step["state"].clone()}
    state, x = theirs.pop("state"), theirs.pop("x")
    expected = modeling_mamba2.mamba2_selective_state_update(state, x, **theirs, dt_softplus=True)
    torch.testing.assert_close(selective_state_update(**step, dt_softplus=True), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(step["state"], state, rtol=1e-5, atol=1e-6)
