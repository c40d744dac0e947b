"""Mamba-2's rule under the names of mamba-ssm."""

import re
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
        ({"return_varlen_states": True, "cu_seqlens": torch.tensor([0.0, 3.7, 7.0])}, "tensor of whole numbers, got"),
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


@pytest.mark.parametrize("narrow", ["x", "dt", "A", "B", "C", "initial_states"])
def test_mixed_precisions_are_computed_in_the_widest(narrow: str) -> None:
    inputs = {name: x.detach() for name, x in given().items()}
    inputs[narrow] = inputs[narrow].float()
    named = {"dt_softplus": True, "return_final_states": True}
    expected = mamba_chunk_scan_combined(**{name: x.double() for name, x in inputs.items()}, **named)
    reads, final = mamba_chunk_scan_combined(**inputs, **named)
    torch.testing.assert_close(reads, expected[0].to(inputs["x"].dtype), rtol=0, atol=0)
    torch.testing.assert_close(final, expected[1], rtol=0, atol=0)


@pytest.mark.parametrize("narrow", ["state", "x", "dt", "A", "B"])
def test_a_step_in_mixed_precisions_is_computed_in_the_widest(narrow: str) -> None:
    step = one_step(given(steps=1))
    step[narrow] = step[narrow].float()
    wide = {name: x.to(torch.float64, copy=True) for name, x in step.items()}
    expected = selective_state_update(**wide).to(step["x"].dtype)
    torch.testing.assert_close(selective_state_update(**step), expected, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(step["state"], wide["state"].to(step["state"].dtype), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", ["x", "dt", "A", "B", "C", "D", "initial_states"])
def test_numbers_that_are_not_real_are_refused(name: str, without_shape_checks: None) -> None:
    inputs = given()
    with pytest.raises(ValueError, match=rf"^{name}: expected a floating-point dtype .*, got torch\.int64"):
        mamba_chunk_scan_combined(**inputs | {name: inputs[name].detach().long()})


@pytest.mark.parametrize("name", ["state", "x", "dt", "A", "B", "C", "D"])
def test_a_step_refuses_numbers_that_are_not_real(name: str, without_shape_checks: None) -> None:
    step = one_step(given(steps=1))
    with pytest.raises(ValueError, match=rf"^{name}: expected a floating-point dtype .*, got torch\.int32"):
        selective_state_update(**step | {name: step[name].int()})


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("x", (2, 7, 12), "(b, t, h, p), got (2, 7, 12)"),
        ("dt", (2, 7, 1), "(b, t, h) = (2, 7, 4), got (2, 7, 1)"),
        ("A", (1,), "(h) = (4), got (1,)"),
        ("A", (4, 1), "(h) = (4), got (4, 1)"),
        ("B", (2, 7, 5), "(b, t, g, n) = (2, 7, g, n), got (2, 7, 5)"),
        ("C", (2, 7, 1, 5), "(b, t, g, n) = (2, 7, 2, 5), got (2, 7, 1, 5)"),
        ("D", (1,), "(h) = (4) or (h, p), got (1,)"),
        ("D", (1, 3), "(h, p) = (4, 3) or (h), got (1, 3)"),
        ("dt_bias", (1,), "(h) = (4), got (1,)"),
        ("z", (2, 7, 4, 1), "(b, t, h, p) = (2, 7, 4, 3), got (2, 7, 4, 1)"),
        ("initial_states", (2, 4, 5, 3), "(b, h, p, n) = (2, 4, 3, 5), got (2, 4, 5, 3)"),
        ("seq_idx", (1, 7), "(b, t) = (2, 7), got (1, 7)"),
        ("seq_idx", (7,), "(b, t) = (2, 7), got (7,)"),
        ("seq_idx", (2, 8), "(b, t) = (2, 7), got (2, 8)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_by_name(
    name: str, shape: tuple[int, ...], message: str, without_shape_checks: None
) -> None:
    wrong = torch.zeros(shape, dtype=torch.int32 if name == "seq_idx" else torch.float64)
    with pytest.raises(ValueError, match=re.escape(f"{name}: expected shape {message}")):
        mamba_chunk_scan_combined(**given() | {name: wrong}, dt_softplus=True)


@pytest.mark.parametrize("limit", [(0.1,), 0.1, (0.1, 0.2, 0.3), None])
def test_a_limit_that_is_not_two_numbers_is_refused(limit, without_shape_checks: None) -> None:
    with pytest.raises(ValueError, match=r"^dt_limit: expected the least and the greatest step size, got "):
        mamba_chunk_scan_combined(**given(), dt_limit=limit, dt_softplus=True)


EXPANDED = ", one number per head expanded"


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("state", (2, 4, 5, 3), "(b, h, p, n) = (2, 4, 3, 5), got (2, 4, 5, 3)"),
        ("state", (1, 4, 3, 5), "(b, h, p, n) = (2, 4, 3, 5), got (1, 4, 3, 5)"),
        ("x", (12,), "(b, h, p) or (b, p), got (12,)"),
        ("dt", (2, 4), f"(b, h, p) = (2, 4, 3){EXPANDED}, got (2, 4)"),
        ("dt", (2, 4, 1), f"(b, h, p) = (2, 4, 3){EXPANDED}, got (2, 4, 1)"),
        ("A", (4,), f"(h, p, n) = (4, 3, 5){EXPANDED}, got (4,)"),
        ("A", (1, 3, 5), f"(h, p, n) = (4, 3, 5){EXPANDED}, got (1, 3, 5)"),
        ("B", (1, 2, 5), "(b, g, n) = (2, g, n), got (1, 2, 5)"),
        ("C", (2, 1, 5), "(b, g, n) = (2, 2, 5), got (2, 1, 5)"),
        ("D", (3,), f"(h, p) = (4, 3){EXPANDED}, got (3,)"),
        ("dt_bias", (4,), f"(h, p) = (4, 3){EXPANDED}, got (4,)"),
        ("z", (2, 1, 3), "(b, h, p) = (2, 4, 3), got (2, 1, 3)"),
    ],
)
def test_a_step_refuses_shapes_that_do_not_fit_and_keeps_its_state(
    name: str, shape: tuple[int, ...], message: str, without_shape_checks: None
) -> None:
    step = one_step(given(steps=1)) | {name: torch.zeros(shape, dtype=torch.float64)}
    before = step["state"].clone()
    with pytest.raises(ValueError, match=re.escape(f"{name}: expected shape {message}")):
        selective_state_update(**step)
    assert torch.equal(step["state"], before)


def test_a_step_without_heads_has_shapes_without_them(without_shape_checks: None) -> None:
    shapes = {"state": (2, 5, 6), "x": (2, 6), "dt": (2, 6), "A": (6, 5), "B": (2, 5), "C": (2, 5)}
    with pytest.raises(ValueError, match=r"^state: expected shape \(b, p, n\) = \(2, 6, 5\), got \(2, 5, 6\)"):
        selective_state_update(**random_sequence(shapes))


@pytest.mark.parametrize("groups", [1, 2])
def test_the_gradients_of_several_steps_are_those_of_the_loop(groups: int) -> None:
    """They reach every argument, and former steps through the state."""
    inputs = given(groups, steps=3) | random_sequence({"z": (2, 3, 4, 3)})
    state, reads = inputs["initial_states"].clone(), []
    expanded = {name: inputs[name][:, None].expand(-1, 3) for name in ("D", "dt_bias")}
    expanded["A"] = inputs["A"][:, None, None].expand(-1, 3, 5)
    for t in range(3):
        now = {name: inputs[name][:, t] for name in ("x", "B", "C", "z")}
        step = inputs["dt"][:, t, :, None].expand(-1, -1, 3)
        reads.append(selective_state_update(state, dt=step, **now, **expanded, dt_softplus=True))
    ours, hand = (torch.stack(reads, dim=1), state), mamba2_by_hand(**inputs)
    torch.testing.assert_close(ours, hand, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(gradients(ours, inputs), gradients(hand, inputs), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["state", "x", "dt", "A", "B", "C"])
def test_a_single_argument_may_need_gradients(name: str) -> None:
    given = random_sequence({"state": (2, 6, 5), "x": (2, 6), "dt": (2, 6), "A": (6, 5), "B": (2, 5), "C": (2, 5)})
    given = {key: x if key == name else x.detach() for key, x in given.items()}
    one, state = {name: given[name]}, given["state"].clone()
    found = gradients((selective_state_update(**given | {"state": state}), state[:0]), one)
    expected = gradients((by_channel(**given)[0],), one)  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_the_gradients_of_a_step_of_mamba_1_are_those_of_the_loop() -> None:
    given = random_sequence({"state": (2, 6, 5), "x": (2, 6), "dt": (2, 6), "A": (6, 5), "B": (2, 5), "C": (2, 5)})
    state = given["state"].clone()
    ours = selective_state_update(**given | {"state": state}), state
    torch.testing.assert_close(gradients(ours, given), gradients(by_channel(**given), given), rtol=1e-10, atol=1e-12)


def test_a_state_that_collects_gradients_itself_is_not_overwritten() -> None:
    step = one_step(given(steps=1))
    step["state"].requires_grad_()
    with pytest.raises(ValueError, match=r"state: .* a leaf that requires gradients; give state\.clone\(\)"):
        selective_state_update(**step)
    with torch.no_grad():
        selective_state_update(**step)
