"""The delta rules under the names of flash-linear-attention: against plain loops and against transformers' own."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

from combinations import usable_backends
from fastweights.functions import chunk_delta_rule, chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
from rule_loops import delta_rule_by_hand, gradients, positional, random_sequence


def given(key_heads: int = 4, steps: int = 7, **options: torch.dtype) -> dict[str, Tensor]:
    shapes = {"q": (2, steps, key_heads, 3), "k": (2, steps, key_heads, 3), "v": (2, steps, 4, 5)}
    shapes |= {"g": (2, steps, 4), "beta": (2, steps, 4), "initial_state": (2, 4, 3, 5)}
    return random_sequence(shapes, **options)


@pytest.mark.parametrize("function", [chunk_gated_delta_rule, fused_recurrent_gated_delta_rule])
@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("normalised", [False, True])
def test_it_is_the_loop(function, key_heads: int, normalised: bool) -> None:
    inputs = given(key_heads)
    ours = function(**inputs, output_final_state=True, use_qk_l2norm_in_kernel=normalised)
    hand = delta_rule_by_hand(**inputs, normalised=normalised)
    torch.testing.assert_close(ours, hand, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(gradients(ours, inputs), gradients(hand, inputs), rtol=1e-10, atol=1e-12)


def test_without_a_decay_it_is_the_delta_rule_of_the_paper() -> None:
    inputs = given()
    del inputs["g"]
    ours = chunk_delta_rule(**inputs, scale=0.7, output_final_state=True)
    hand = delta_rule_by_hand(**inputs, g=torch.zeros(2, 7, 4), scale=0.7)
    torch.testing.assert_close(ours, hand, rtol=1e-12, atol=1e-13)


def test_decays_per_head_and_per_channel_multiply() -> None:
    inputs = given()
    channels = random_sequence({"g": (2, 7, 4, 3)})["g"]
    ours = fused_recurrent_gated_delta_rule(**inputs, gk=channels, output_final_state=True)
    hand = delta_rule_by_hand(**inputs | {"g": channels + inputs["g"][..., None]})
    torch.testing.assert_close(ours, hand, rtol=1e-12, atol=1e-13)
    with pytest.raises(ValueError, match="gv: a decay per value channel"):
        fused_recurrent_gated_delta_rule(**inputs, gv=inputs["v"])


@pytest.mark.parametrize("function", [chunk_gated_delta_rule, fused_recurrent_gated_delta_rule])
def test_gates_may_be_computed_inside(function) -> None:
    inputs = given()
    more = random_sequence({"A_log": (4,), "dt_bias": (4,)})
    decay = -more["A_log"].exp() * softplus(inputs["g"] + more["dt_bias"])
    named = {"use_gate_in_kernel": True, "use_beta_sigmoid_in_kernel": True, "allow_neg_eigval": True}
    ours = function(**inputs, **more, **named, output_final_state=True)
    hand = delta_rule_by_hand(**inputs | {"g": decay, "beta": 2 * inputs["beta"].sigmoid()})
    torch.testing.assert_close(ours, hand, rtol=1e-12, atol=1e-13)
    everything = inputs | more
    torch.testing.assert_close(gradients(ours, everything), gradients(hand, everything), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"A_log": torch.zeros(4)}, "with use_gate_in_kernel=True only"),
        ({"use_gate_in_kernel": True}, "A_log: use_gate_in_kernel needs it"),
        ({"allow_neg_eigval": True}, "with use_beta_sigmoid_in_kernel=True only"),
    ],
)
@pytest.mark.parametrize("function", [chunk_gated_delta_rule, fused_recurrent_gated_delta_rule])
def test_options_that_do_not_go_together_are_refused(function, option, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(**given(), **option)


def test_a_gate_without_an_input_is_refused() -> None:
    inputs = given()
    del inputs["g"]
    with pytest.raises(ValueError, match="g: use_gate_in_kernel needs it"):
        fused_recurrent_gated_delta_rule(**inputs, use_gate_in_kernel=True, A_log=torch.zeros(4))


def test_what_chooses_a_kernel_elsewhere_has_no_effect() -> None:
    one = {name: x[:1] for name, x in given().items() if name != "initial_state"}
    expected = chunk_gated_delta_rule(**one, cu_seqlens=[0, 3, 7])[0]
    ends = torch.tensor([0, 3, 7])
    named = {"cu_seqlens": ends, "cu_seqlens_cpu": ends, "chunk_indices": torch.zeros(2, 2), "chunk_size": 32}
    assert torch.equal(chunk_gated_delta_rule(**one, **named)[0], expected)


def test_arguments_have_the_order_of_flash_linear_attention() -> None:
    """The order in which they may be given without their names; from there on versions differ."""
    shared = "scale initial_state output_final_state use_qk_l2norm_in_kernel"
    assert positional(chunk_gated_delta_rule) == f"q k v g beta {shared}"
    assert positional(fused_recurrent_gated_delta_rule) == f"q k v g gk gv beta {shared}"
    assert positional(chunk_delta_rule) == f"q k v beta {shared} cu_seqlens cu_seqlens_cpu"


def test_an_absent_strength_is_one() -> None:
    inputs = given() | {"beta": torch.ones(2, 7, 4, dtype=torch.float64)}
    expected, _ = fused_recurrent_gated_delta_rule(**inputs)
    del inputs["beta"]
    assert torch.equal(fused_recurrent_gated_delta_rule(**inputs)[0], expected)


def test_a_full_write_is_read_back() -> None:
    key = normalize(torch.randn(1, 1, 1, 3), dim=-1)
    value = torch.tensor([[[[1.0, 2.0]]]])
    ones = torch.ones(1, 1, 1)
    read, state = chunk_gated_delta_rule(key, key, value, 0 * ones, ones, scale=1.0, output_final_state=True)
    torch.testing.assert_close(read, value)
    assert state is not None
    assert state.shape == (1, 1, 3, 2)


def test_the_state_may_be_the_weights_themselves() -> None:
    inputs = given()
    reads, state = chunk_gated_delta_rule(**inputs, output_final_state=True)
    inputs["initial_state"] = inputs["initial_state"].mT
    turned_reads, turned = chunk_gated_delta_rule(**inputs, output_final_state=True, state_v_first=True)
    assert state is not None
    assert turned is not None
    assert torch.equal(turned, state.mT)
    assert torch.equal(turned_reads, reads)


def test_a_gradient_penalty_is_refused_or_right_through_torch_func() -> None:
    """These functions take no backend, so the refusal must name a way that they have."""
    inputs = given()

    def penalty(k: Tensor, rule: Callable[..., tuple[Tensor, Tensor | None]]) -> Tensor:
        slope = torch.func.grad(lambda k: rule(**inputs | {"k": k})[0].square().sum())(k)
        return torch.autograd.grad(slope.square().sum(), k)[0]

    if "native" in usable_backends(torch.float64):
        (slope,) = torch.autograd.grad(
            chunk_gated_delta_rule(**inputs)[0].square().sum(), inputs["k"], create_graph=True
        )
        with pytest.raises(RuntimeError, match=r"no second derivative.*torch\.func where a function takes no backend"):
            slope.square().sum().backward()
    ours, hand = (penalty(inputs["k"], rule) for rule in (chunk_gated_delta_rule, delta_rule_by_hand))
    torch.testing.assert_close(ours, hand, rtol=1e-10, atol=1e-12)


def test_no_state_is_returned_unasked() -> None:
    assert chunk_gated_delta_rule(**given())[1] is None


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("final", [False, True])
def test_packed_sequences_equal_single_ones(with_state: bool, final: bool) -> None:
    ends = [0, 3, 4, 4, 9]
    packed = {name: x[:1] for name, x in given(steps=9).items()}
    packed["initial_state"] = random_sequence({"initial_state": (4, 4, 3, 5)})["initial_state"]
    if not with_state:
        del packed["initial_state"]
    reads, states = chunk_gated_delta_rule(**packed, cu_seqlens=torch.tensor(ends), output_final_state=final)
    for row in range(4):
        start, end = ends[row : row + 2]
        one = {name: x[:, start:end] for name, x in packed.items() if name != "initial_state"}
        if with_state:
            one["initial_state"] = packed["initial_state"][row : row + 1]
        read, state = chunk_gated_delta_rule(**one, output_final_state=True)
        torch.testing.assert_close(reads[:, start:end], read, rtol=1e-12, atol=1e-13)
        if final:
            assert states is not None
            torch.testing.assert_close(states[row : row + 1], state, rtol=1e-12, atol=1e-13)
    assert final or states is None


def test_packing_refuses_what_does_not_fit() -> None:
    inputs = given()
    with pytest.raises(ValueError, match="batch of one row, got 2"):
        chunk_gated_delta_rule(**inputs, cu_seqlens=[0, 7])
    one = {name: x[:1] for name, x in inputs.items()}
    with pytest.raises(ValueError, match="one for each of 2 sequences, got 1"):
        chunk_gated_delta_rule(**one, cu_seqlens=[0, 3, 7])
    with pytest.raises(ValueError, match="cumulative lengths from 0 to 7"):
        chunk_gated_delta_rule(**one, cu_seqlens=[0, 3])
    with pytest.raises(ValueError, match="3 key heads divide"):
        chunk_gated_delta_rule(**given(key_heads=3))


def test_low_precision_is_computed_in_float32() -> None:
    inputs = given(dtype=torch.bfloat16)
    reads, state = chunk_gated_delta_rule(**inputs, output_final_state=True)
    precise, precise_state = chunk_gated_delta_rule(
        **{name: x.float() for name, x in inputs.items()}, output_final_state=True
    )
    assert state is not None
    assert (reads.dtype, state.dtype) == (torch.bfloat16, torch.float32)
    assert torch.equal(reads, precise.bfloat16())
    torch.testing.assert_close(state, precise_state)


@pytest.mark.parametrize("name", ["torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"])
def test_it_is_the_function_of_transformers(name: str) -> None:
    from transformers.models.qwen3_5 import modeling_qwen3_5

    inputs = given(steps=70, dtype=torch.float32)
    values = [inputs.pop(letter) for letter in "qkv"]
    named = {"output_final_state": True, "use_qk_l2norm_in_kernel": True}
    ours = chunk_gated_delta_rule(*values, **inputs, **named)
    stock = getattr(modeling_qwen3_5, name)(*values, **inputs, **named)
    torch.testing.assert_close(ours, stock, rtol=1e-5, atol=1e-6)
    everything = inputs | dict(zip("qkv", values, strict=True))
    torch.testing.assert_close(gradients(ours, everything), gradients(stock, everything), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("layout", ["columns", "slices", "many columns"])
def test_the_layout_in_memory_does_not_matter(layout: str) -> None:
    """A short convolution leaves columns, a fused projection slices."""
    batch, steps, heads, dim = (2, 70, 4, 64) if layout == "many columns" else (2, 7, 4, 3)
    together = torch.randn(batch, steps, 3 * heads * dim, dtype=torch.float64)
    if layout != "slices":
        together = together.mT.contiguous().mT
    q, k, v = (x.view(batch, steps, heads, dim) for x in together.split(heads * dim, dim=-1))
    g, beta = (
        -torch.rand(batch, steps, heads, dtype=torch.float64),
        torch.rand(batch, steps, heads, dtype=torch.float64),
    )
    named = {"use_qk_l2norm_in_kernel": True, "output_final_state": True}
    found = chunk_gated_delta_rule(q, k, v, g, beta, **named)
    expected = chunk_gated_delta_rule(q.contiguous(), k.contiguous(), v.contiguous(), g, beta, **named)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)
    assert found[0].is_contiguous()


@pytest.mark.parametrize("narrow", ["g", "beta", "initial_state", "q", "k", "v"])
@pytest.mark.parametrize("others", [torch.float32, torch.float64])
def test_mixed_precisions_are_computed_in_the_widest(narrow: str, others: torch.dtype) -> None:
    """A model in float64 may keep its decay in float32, as Kimi Linear does, and the other way round."""
    single = torch.float32 if others == torch.float64 else torch.float64
    inputs = {name: x.float().to(single if name == narrow else others).detach() for name, x in given().items()}
    expected = chunk_gated_delta_rule(**{name: x.double() for name, x in inputs.items()}, output_final_state=True)
    reads, state = chunk_gated_delta_rule(**inputs, output_final_state=True)
    assert reads.dtype == inputs["q"].dtype
    torch.testing.assert_close(reads, expected[0].to(reads.dtype), rtol=0, atol=0)
    torch.testing.assert_close(state, expected[1], rtol=0, atol=0)


def test_gates_in_mixed_precisions_are_computed_in_the_widest() -> None:
    inputs = given() | random_sequence({"A_log": (4,), "dt_bias": (4,)})
    inputs = {name: x.detach().float() if name in ("g", "dt_bias") else x.detach() for name, x in inputs.items()}
    expected = chunk_gated_delta_rule(**{name: x.double() for name, x in inputs.items()}, use_gate_in_kernel=True)
    assert torch.equal(chunk_gated_delta_rule(**inputs, use_gate_in_kernel=True)[0], expected[0])


@pytest.mark.parametrize("name", ["q", "k", "v", "g", "beta", "initial_state"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_numbers_that_are_not_real_are_refused(name: str, dtype: torch.dtype, without_shape_checks: None) -> None:
    inputs = given()
    inputs[name] = inputs[name].detach().to(dtype)
    with pytest.raises(ValueError, match=f"^{name}: expected a floating-point dtype .*bfloat16.*, got {dtype}"):
        chunk_gated_delta_rule(**inputs)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("q", (2, 7, 12), "(b, t, g, k) = (2, 7, 4, 3), got (2, 7, 12)"),
        ("q", (2, 7, 2, 3), "(b, t, g, k) = (2, 7, 4, 3), got (2, 7, 2, 3)"),
        ("k", (2, 7, 12), "(b, t, g, k), got (2, 7, 12)"),
        ("v", (2, 7, 20), "(b, t, h, v) = (2, 7, h, v), got (2, 7, 20)"),
        ("v", (1, 7, 4, 5), "(b, t, h, v) = (2, 7, h, v), got (1, 7, 4, 5)"),
        ("beta", (2, 7, 4, 5), "(b, t, h) = (2, 7, 4), got (2, 7, 4, 5)"),
        ("beta", (2, 7, 1), "(b, t, h) = (2, 7, 4), got (2, 7, 1)"),
        ("g", (2, 4, 7), "(b, t, h) = (2, 7, 4), got (2, 4, 7)"),
        ("initial_state", (2, 4, 5, 3), "(b, h, k, v) = (2, 4, 3, 5), k × v without state_v_first, got (2, 4, 5, 3)"),
        ("initial_state", (1, 4, 3, 5), "(b, h, k, v) = (2, 4, 3, 5), k × v without state_v_first, got (1, 4, 3, 5)"),
    ],
)
@pytest.mark.parametrize("function", [chunk_gated_delta_rule, fused_recurrent_gated_delta_rule])
def test_shapes_that_do_not_fit_are_refused_by_name(
    function, name: str, shape: tuple[int, ...], message: str, without_shape_checks: None
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{name}: expected shape {message}")):
        function(**given() | {name: torch.rand(shape)})


@pytest.mark.parametrize("name", ["g", "beta"])
def test_what_a_rule_needs_may_not_be_absent(name: str, without_shape_checks: None) -> None:
    message = rf"^{name}: expected shape \(b, t, h\) = \(2, 7, 4\), got None"
    inputs: dict[str, Tensor | None] = {**given(), name: None}
    with pytest.raises(ValueError, match=message):
        chunk_gated_delta_rule(**inputs)  # type: ignore[arg-type]
    if name == "beta":
        del inputs["g"]
        with pytest.raises(ValueError, match=message):
            chunk_delta_rule(**inputs)  # type: ignore[arg-type]


def test_exchanged_states_are_refused_with_the_option_too(without_shape_checks: None) -> None:
    with pytest.raises(
        ValueError, match=r"\(b, h, v, k\) = \(2, 4, 5, 3\), v × k with state_v_first, got \(2, 4, 3, 5\)"
    ):
        chunk_gated_delta_rule(**given(), state_v_first=True)
    packed = {name: x[:1] for name, x in given().items()} | {"initial_state": torch.rand(2, 4, 5, 3)}
    with pytest.raises(ValueError, match=r"\(n, h, k, v\) = \(n, 4, 3, 5\), k × v without state_v_first"):
        chunk_gated_delta_rule(**packed, cu_seqlens=[0, 3, 7])


@pytest.mark.parametrize("name", ["A_log", "dt_bias"])
@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("function", [chunk_gated_delta_rule, fused_recurrent_gated_delta_rule])
def test_gates_of_another_size_are_refused(function, name: str, size: int, without_shape_checks: None) -> None:
    gates = {"A_log": torch.zeros(4), "dt_bias": torch.zeros(4)} | {name: torch.zeros(size)}
    with pytest.raises(ValueError, match=rf"^{name}: expected shape \(4,\).*, got \({size},\)"):
        function(**given(), **gates, use_gate_in_kernel=True)


def test_a_decay_per_channel_has_its_own_name_and_shape(without_shape_checks: None) -> None:
    inputs = given()
    with pytest.raises(ValueError, match=r"^gk: expected shape \(b, t, h, k\) = \(2, 7, 4, 3\), got \(2, 7, 4\)"):
        fused_recurrent_gated_delta_rule(**inputs, gk=inputs["g"])
