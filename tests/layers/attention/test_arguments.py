"""Arguments of the wrong kind: refused when the layer is built, with what is possible."""

from collections.abc import Callable

import pytest
import torch

from fastweights import DPFP, FastWeightAttention, FastWeightCrossAttention

pytestmark = pytest.mark.usefixtures("without_shape_checks")

X = torch.randn(1, 3, 16)

MISTAKES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: FastWeightAttention(16, 2, feature_map="dpfp"), TypeError, r"feature_map: .*'dpfp'; possible: .*DPFP\(\)"),
    (lambda: FastWeightAttention(16, 2, feature_map=DPFP), TypeError, r"feature_map: .*class .*possible: .*DPFP\(\)"),
    (lambda: FastWeightAttention(16, 2, update_rule="delta"), TypeError, r"update_rule: .*possible: .*DeltaRule\(\)"),
    (lambda: FastWeightAttention(16, 2, normalisation="l2"), TypeError, r"normalisation: .*L2Normalisation\(\)"),
    (lambda: FastWeightAttention(16, 2, backend="cuda"), ValueError, "unknown backend .cuda.; possible: auto,"),
    (lambda: FastWeightAttention(16, 2, key_dim=0), ValueError, "key_dim: expected at least 1, got 0"),
    (lambda: FastWeightCrossAttention(16, 2, value_dim=-1), ValueError, "value_dim: expected at least 1, got -1"),
    (lambda: FastWeightAttention(16, 2)(X.long()), TypeError, r"x: expected a floating-point tensor, got torch.int64"),
    (lambda: FastWeightAttention(16, 2)(X, X), TypeError, "state: expected a FastWeightState.*got Tensor"),
    (lambda: FastWeightCrossAttention(16, 2)(X, X), TypeError, "state: expected a FastWeightState.*got Tensor"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "error", "message"), MISTAKES)
def test_a_mistake_is_told(build: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()
