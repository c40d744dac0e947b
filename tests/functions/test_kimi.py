"""Kimi delta attention under the names of flash-linear-attention."""

import re

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from fastweights.functions import chunk_kda, fused_recurrent_kda
from rule_loops import delta_rule_by_hand, gradients, positional, random_sequence


def given(steps: int = 7, **options: torch.dtype) -> dict[str, Tensor]:
    shapes = {"q": (2, steps, 2, 3), "k": (2, steps, 2, 3), "v": (2, steps, 2, 5)}
    shapes |= {"g": (2, steps, 2, 3), "beta": (2, steps, 2), "initial_state": (2, 2, 3, 5)}
    return random_sequence(shapes, **options)


@pytest.mark.parametrize("function", [chunk_kda, fused_recurrent_kda])
@pytest.mark.parametrize("normalised", [False, True])
def test_it_is_the_loop(function, normalised: bool) -> None:
    inputs = given()
    ours = function(**inputs, output_final_state=True, use_qk_l2norm_in_kernel=normalised)
    hand = delta_rule_by_hand(**inputs, normalised=normalised)
    torch.testing.assert_close(ours, hand, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(gradients(ours, inputs), gradients(hand, inputs), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("lower_bound", [None, -5.0])
def test_the_decay_may_be_computed_inside(lower_bound: float | None) -> None:
    inputs = given()
    more = random_sequence({"A_log": (2,), "dt_bias": (6,)})
    logits = inputs["g"] + more["dt_bias"].view(2, 3)
    rate = more["A_log"].exp()[:, None]
    decay = -rate * softplus(logits) if lower_bound is None else lower_bound * (rate * logits).sigmoid()
    ours = chunk_kda(**inputs, **more, use_gate_in_kernel=True, lower_bound=lower_bound, output_final_state=True)
    hand = delta_rule_by_hand(**inputs | {"g": decay})
    torch.testing.assert_close(ours, hand, rtol=1e-12, atol=1e-13)


def test_with_a_lower_bound_the_rate_may_be_absent() -> None:
    inputs = given()
    named = {"use_gate_in_kernel": True, "lower_bound": -5.0, "safe_gate": True}
    absent = chunk_kda(**inputs, **named)[0]
    torch.testing.assert_close(absent, chunk_kda(**inputs, **named, A_log=torch.zeros(2))[0])


def test_arguments_have_the_order_of_flash_linear_attention() -> None:
    """The order in which they may be given without their names; from there on versions differ."""
    both = "scale initial_state output_final_state use_qk_l2norm_in_kernel"
    assert positional(chunk_kda) == f"q k v g beta {both}"
    assert positional(fused_recurrent_kda) == f"q k v g beta A_log dt_bias {both}"


def test_strengths_up_to_two() -> None:
    inputs = given()
    twice = chunk_kda(**inputs, use_beta_sigmoid_in_kernel=True, allow_neg_eigval=True)[0]
    strength = 2 * inputs.pop("beta").sigmoid()
    torch.testing.assert_close(twice, chunk_kda(**inputs, beta=strength)[0])


def test_packed_sequences_equal_single_ones() -> None:
    inputs = {name: x[:1] for name, x in given().items() if name != "initial_state"}
    packed, _ = chunk_kda(**inputs, cu_seqlens=[0, 3, 7])
    single = [chunk_kda(**{name: x[:, part] for name, x in inputs.items()})[0] for part in (slice(3), slice(3, 7))]
    torch.testing.assert_close(packed, torch.cat(single, dim=1), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"use_gate_in_kernel": True}, "A_log: use_gate_in_kernel needs it, or a lower_bound"),
        ({"use_gate_in_kernel": True, "safe_gate": True, "A_log": torch.zeros(2)}, "lower_bound: safe_gate"),
        ({"lower_bound": -5.0}, "with use_gate_in_kernel=True only"),
        ({"allow_neg_eigval": True}, "with use_beta_sigmoid_in_kernel=True only"),
        ({"use_gate_in_kernel": True, "A_log": torch.zeros(2), "lower_bound": 1.0}, "expected a negative logarithm"),
    ],
)
def test_an_option_without_effect_is_refused(option, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chunk_kda(**given(), **option)


@pytest.mark.parametrize("name", ["chunk_kimi_delta_attention", "recurrent_kimi_delta_attention"])
def test_it_is_the_function_of_transformers(name: str) -> None:
    from transformers.models.kimi_linear import modeling_kimi_linear

    inputs = given(steps=70, dtype=torch.float32)
    values = [inputs.pop(letter) for letter in "qkv"]
    named = {"output_final_state": True, "use_qk_l2norm_in_kernel": True}
    ours = chunk_kda(*values, **inputs, **named)
    stock = getattr(modeling_kimi_linear, name)(*values, **inputs, **named)
    torch.testing.assert_close(ours, stock, rtol=1e-5, atol=1e-6)
    everything = inputs | dict(zip("qkv", values, strict=True))
    torch.testing.assert_close(gradients(ours, everything), gradients(stock, everything), rtol=1e-3, atol=1e-5)


def test_mixed_precisions_are_computed_in_the_widest() -> None:
    """What Kimi Linear hands over in float64: its decay and its cached state are float32 all the same."""
    inputs = given() | {name: given()[name].detach().float() for name in ("g", "initial_state")}
    expected = chunk_kda(**{name: x.double() for name, x in inputs.items()}, output_final_state=True)
    torch.testing.assert_close(chunk_kda(**inputs, output_final_state=True), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("g", (2, 7, 2), "expected shape (b, t, h, k) = (2, 7, 2, 3), got (2, 7, 2)"),
        ("g", (2, 7, 2, 1), "expected shape (b, t, h, k) = (2, 7, 2, 3), got (2, 7, 2, 1)"),
        ("beta", (2, 7, 2, 5), "expected shape (b, t, h) = (2, 7, 2), got (2, 7, 2, 5)"),
        ("A_log", (1,), "expected shape (2,), got (1,)"),
        ("A_log", (1, 1, 4, 1), "expected shape (2,), got (1, 1, 4, 1)"),
        ("dt_bias", (2,), "expected shape (2, 3) or (6,), got (2,)"),
        ("dt_bias", (3, 2), "expected shape (2, 3) or (6,), got (3, 2)"),
    ],
)
@pytest.mark.parametrize("function", [chunk_kda, fused_recurrent_kda])
def test_shapes_that_do_not_fit_are_refused_by_name(
    function, name: str, shape: tuple[int, ...], message: str, without_shape_checks: None
) -> None:
    inputs = given() | {"A_log": torch.zeros(2), "dt_bias": torch.zeros(6)} | {name: torch.zeros(shape)}
    with pytest.raises(ValueError, match=re.escape(f"{name}: {message}")):
        function(**inputs, use_gate_in_kernel=True)


def test_gates_in_other_shapes_with_as_many_numbers_are_the_same() -> None:
    """Checkpoints keep A_log as `1 1 h 1` or `h`, the bias as `h k` or flat."""
    inputs, gates = given(), random_sequence({"A_log": (2,), "dt_bias": (6,)})
    turned = {"A_log": gates["A_log"].view(1, 1, 2, 1), "dt_bias": gates["dt_bias"].view(2, 3)}
    found, expected = (chunk_kda(**inputs, **one, use_gate_in_kernel=True)[0] for one in (turned, gates))
    assert torch.equal(found, expected)
