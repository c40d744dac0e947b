"""Arguments of the wrong kind: refused when the layer is built, with what is possible."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fastweights import DPFP, FastWeightAttention, FastWeightCrossAttention
from fastweights.layers import MultiheadFastWeights, SoftmaxAttention, SoftmaxCrossAttention

pytestmark = pytest.mark.usefixtures("without_shape_checks")

X = torch.randn(1, 3, 16)

MISTAKES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: FastWeightAttention(16, 2, feature_map="dpfp"), TypeError, r"feature_map: .*'dpfp'; .*: .*DPFP\(\)"),
    (lambda: FastWeightAttention(16, 2, feature_map=DPFP), TypeError, r"feature_map: .*class .*possible: .*DPFP\(\)"),
    (lambda: FastWeightAttention(16, 2, update_rule="delta"), TypeError, r"update_rule: .*possible: .*DeltaRule\(\)"),
    (lambda: FastWeightAttention(16, 2, normalisation="l2"), TypeError, r"normalisation: .*L2Normalisation\(\)"),
    (lambda: FastWeightAttention(16, 2, backend="cuda"), ValueError, "unknown backend .cuda.; possible: auto,"),
    (lambda: FastWeightAttention(16, 2, key_dim=0), ValueError, "key_dim: expected at least 1, got 0"),
    (lambda: FastWeightCrossAttention(16, 2, value_dim=-1), ValueError, "value_dim: expected at least 1, got -1"),
    (lambda: FastWeightAttention(16, 2, value_skip=True, update_rule="delta"), TypeError, "update_rule: .*'delta'"),
    (lambda: FastWeightAttention(16, 2, value_skip=1), TypeError, "value_skip: expected True or False, got 1"),
    (lambda: FastWeightAttention(16, 2, convolution=4), TypeError, r"convolution: .*got 4; .*ShortConvolution\(\)"),
    (lambda: FastWeightAttention(16, 2, output_gate="silu"), TypeError, r"output_gate: .*'silu'.*: GatedNorm\(\)"),
    (lambda: FastWeightAttention(16, 2, causal="no"), TypeError, "causal: expected True or False, got 'no'"),
    (lambda: MultiheadFastWeights(16, 2, causal="no"), TypeError, "causal: expected True or False, got 'no'"),
    (lambda: FastWeightAttention(16, 2, read_scale="x"), TypeError, "read_scale: expected a finite number, got 'x'"),
    (lambda: FastWeightCrossAttention(16, 2, read_scale=None), TypeError, "read_scale: expected a finite number"),
    (lambda: FastWeightAttention(16, 2, read_scale=math.inf), TypeError, "read_scale: expected a finite number"),
    (lambda: FastWeightAttention(16, 2, attention_normalisation="no"), TypeError, "False or None, got 'no'"),
    (lambda: FastWeightCrossAttention(16, 2, attention_normalisation="no"), TypeError, "False or None, got 'no'"),
    (lambda: FastWeightAttention(16, 2)(X.long()), TypeError, r"x: expected a floating-point tensor, got torch.int64"),
    (lambda: FastWeightAttention(16, 2)(X, X), TypeError, "state: expected a FastWeightState.*got Tensor"),
    (lambda: FastWeightCrossAttention(16, 2)(X, X), TypeError, "state: expected a FastWeightState.*got Tensor"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "error", "message"), MISTAKES)
def test_a_mistake_is_told(build: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize("given", [2, 0.5, np.float32(0.5), np.int64(2)])
def test_any_number_is_a_scale(given: float) -> None:
    layer = FastWeightAttention(16, 2, read_scale=given)
    layer(X)


@pytest.mark.parametrize("build", [FastWeightAttention, SoftmaxAttention])
class TestPrecision:
    @pytest.mark.parametrize("of_layer", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("of_input", [torch.float64, torch.bfloat16, torch.float32])
    def test_another_one_than_that_of_the_weights_is_told(
        self, build: Callable[[int, int], nn.Module], of_layer: torch.dtype, of_input: torch.dtype
    ) -> None:
        layer, x = build(16, 2).to(of_layer), X.to(of_input)
        state = layer.initial_state(1, of_layer)
        for call in (lambda: layer(x), lambda: layer(x[:, :1], state), lambda: layer.attend(x)):
            if of_layer == of_input:
                call()
                continue
            with pytest.raises(TypeError, match=rf"x: expected {of_layer}, .*got {of_input}; .*x.to\({of_layer}\)"):
                call()

    def test_autocast_takes_either(self, build: Callable[[int, int], nn.Module]) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            assert build(16, 2)(X.bfloat16())[0].dtype == torch.bfloat16
            assert build(16, 2).bfloat16()(X)[0].dtype == torch.bfloat16

    def test_a_projection_that_converts_its_input_is_left_to_do_so(
        self, build: Callable[[int, int], nn.Module]
    ) -> None:
        layer, other = build(16, 2), build(16, 2)
        layer.projection.register_forward_pre_hook(lambda _, given: (given[0].float(),))

        class Converting(nn.Linear):
            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x.float())

        other.projection.__class__ = Converting
        for made in (layer, other):
            x = X.bfloat16()
            assert torch.equal(made(x)[0], made(x.float())[0])


@pytest.mark.parametrize("build", [FastWeightCrossAttention, SoftmaxCrossAttention])
def test_cross_attention_tells_of_another_precision_too(build: Callable[[int, int], nn.Module]) -> None:
    layer, low = build(16, 2), X.bfloat16()
    memory = layer.write(X)
    for call in (lambda: layer.write(low), lambda: layer(low, memory), lambda: layer.attend(low, X)):
        with pytest.raises(TypeError, match=r"x: expected torch.float32, .*got torch.bfloat16"):
            call()
