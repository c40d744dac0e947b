"""A rule with two gates, one of them with parameters of its own: the delta rule with a learned decay.

    python examples/add_a_gated_rule.py

The rule is that of Gated DeltaNet (Yang et al., 2024): α = exp(-exp(A) softplus(W_α x + b)) says how much of the memory
each step keeps. A rule names its gates; the layer computes them in its one projection and keeps what they learn. One
line in `UPDATE_RULES` would hand the rule to configurations, the command line and the tests of agreement.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from fastweights import Coefficients, FastWeightAttention, LinearRule, backends
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules import Gate, WriteStrength
from fastweights.update_rules.base import outer, retrieve


@dataclass(frozen=True)
class Decay(Gate):
    """α = exp(-exp(A) softplus(W_α x + b)), in (0, 1)."""

    def parameters(self, num_heads: int, components: int) -> dict[str, Tensor]:
        """Rates exp(A) from 1 to 16, and b for which softplus(b) goes from 0.001 to 0.1, over the heads."""
        rates = torch.linspace(1, 16, num_heads)
        steps = torch.logspace(-3, -1, num_heads)
        # softplus(b) = s  for  b = log(exp(s) - 1)
        return {"log_rate": rates.log()[:, None], "bias": steps.expm1().log()[:, None]}

    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        # In at least float32: bfloat16 would round decays close to one.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return (-parameters["log_rate"].exp() * softplus(logits + parameters["bias"])).exp()


@dataclass(frozen=True)
class GatedDeltaRule(LinearRule):
    """W ← α W (I - β k kᵀ) + β v kᵀ."""

    equations: ClassVar[str] = "-"
    gates: ClassVar[tuple[Gate, ...]] = (WriteStrength("beta"), Decay("alpha"))

    def step(
        self, weights: Weights, key: Key, value: Value, gates: StepGates, normaliser: Normaliser | None = None
    ) -> Weights:
        kept = gates["alpha"][..., None, None] * weights
        return kept + outer(gates["beta"][..., None] * (value - retrieve(kept, key)), key)

    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        return Coefficients(erase=gates["beta"], write=gates["beta"], decay=gates["alpha"])


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 100, 32)
    layer = FastWeightAttention(32, 4, update_rule=GatedDeltaRule(), backend="recurrent")
    expected, _ = layer(x)
    print("learned beside the projections:", [name for name, _ in layer.named_parameters() if "gate" in name])
    for name, status in backends().items():
        if status.available:
            layer.backend = name
            error = (layer(x)[0] - expected).norm() / expected.norm()
            print(f"{name:10} relative difference {error:.1e}")
            assert error < 1e-5

    attention = FastWeightAttentionConfig(update_rule=GatedDeltaRule())
    config = LanguageModelConfig(
        vocabulary_size=64,
        model_dim=32,
        num_heads=4,
        num_layers=2,
        feed_forward_dim=64,
        attention=attention,
        dropout=0.0,
    )
    model = LanguageModel(config)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    # The second half of every text repeats the first half.
    half = torch.randint(64, (8, 17))
    tokens = torch.cat([half, half], dim=1)
    for step in range(61):
        hidden, _ = model(tokens[:, :-1])
        loss = model.losses(hidden, tokens[:, 1:]).mean()
        if step % 20 == 0:
            print(f"step {step:3} perplexity {math.exp(loss.item()):.2f}")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 3.0


if __name__ == "__main__":
    main()
