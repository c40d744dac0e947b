"""A new update rule in a few lines: it then runs on every backend and in every layer.

    python examples/add_a_rule.py

The rule: how far a write goes should not depend on the length of the key (normalised least mean squares), and old
associations should fade. It is linear in W, so two methods say all: `step`, its definition, and `coefficients`, the
same as (erase, write, decay) for the fast operator. One line in `UPDATE_RULES` would hand it to the tests of agreement.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from fastweights import Coefficients, FastWeightAttention, Identity, LinearRule, NoNormalisation, backends
from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules import Gate, WriteStrength


@dataclass(frozen=True)
class FadingRule(LinearRule):
    """W ← γ W + β (v - γ W k) ⊗ k / |k|²."""

    gamma: float = 0.99
    equations: ClassVar[str] = "-"
    gates: ClassVar[tuple[Gate, ...]] = (WriteStrength("beta"),)

    def step(
        self, weights: Weights, key: Key, value: Value, gates: StepGates, normaliser: Normaliser | None = None
    ) -> Weights:
        faded = self.gamma * weights
        rate = self._rate(key, gates["beta"])[..., None, None]
        error = value[..., None] - faded @ key[..., None]
        return faded + rate * error @ key[..., None, :]

    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        rate = self._rate(keys, gates["beta"])
        return Coefficients(erase=rate, write=rate, decay=torch.full_like(rate, self.gamma))

    def _rate(self, keys: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        square = keys.square().sum(dim=-1)
        return torch.where(square > 0, beta / torch.where(square > 0, square, 1.0), 0.0)


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 100, 32, dtype=torch.float64)
    layer = FastWeightAttention(
        32, 4, update_rule=FadingRule(gamma=0.95), feature_map=Identity(), normalisation=NoNormalisation()
    ).double()
    expected, _ = layer(x)
    for name, status in backends().items():
        if not status.available:
            print(f"{name:10} not here: {status.reason}")
            continue
        layer.backend = name
        y, state = layer(x)
        error = (y - expected).norm() / expected.norm()
        print(f"{name:10} relative difference {error:.1e}, |W| = {state.weights.norm():.4f}")
        assert error < 1e-12


if __name__ == "__main__":
    main()
