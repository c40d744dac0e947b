"""Gates: a rule names them, a layer computes them; a rule with two gates of its own is one file and one line."""

import sys
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from test_agreement import assert_agrees
from torch import Tensor
from torch.testing import assert_close

from combinations import combinations, usable_backends
from fastweights import FEATURE_MAPS, UPDATE_RULES, Coefficients, FastWeightAttention, FastWeightCrossAttention
from fastweights.memory import FastWeightState, WriteInputs, run_rule
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.shapes import Gates, PerStep
from fastweights.update_rules import DeltaRule, Gate, LinearRule, SumRule, WriteStrength
from fastweights.update_rules.base import outer
from pairwise import every_pair
from random_problems import Case

EXAMPLE = Path(__file__).parents[2] / "examples" / "add_a_gated_rule.py"
BACKENDS = usable_backends(torch.float64)


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> LinearRule:
    """The gated delta rule of the example, in the table."""
    spec = spec_from_file_location("add_a_gated_rule", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "add_a_gated_rule", module)
    spec.loader.exec_module(module)
    monkeypatch.setitem(UPDATE_RULES, "gated-delta", module.GatedDeltaRule)
    return module.GatedDeltaRule()


def test_the_write_strength_is_a_sigmoid() -> None:
    logits = torch.tensor([0.0, 2.0])
    assert_close(WriteStrength("beta")(logits), torch.tensor([0.5, 0.8807970779]))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_rule_with_two_gates_agrees_with_its_definition_on_every_backend(
    rule: LinearRule, dtype: torch.dtype
) -> None:
    found = [combination for combination in combinations() if combination.rule == rule]
    assert {type(combination.feature_map) for combination in found} == set(FEATURE_MAPS.values())
    assert all(combination.backends() == BACKENDS for combination in found)
    for combination in every_pair(found, lambda combination: combination.options):
        assert_agrees(combination, Case(2, 1, 17, 4, 5, dtype, "transposed", starts_empty=False, seed=0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_layer_computes_both_gates(rule: LinearRule, backend: str) -> None:
    layer = FastWeightAttention(6, 2, key_dim=3, value_dim=4, update_rule=rule, backend=backend).double()
    with torch.no_grad():
        for parameter in layer.gate_parameters.parameters():
            parameter.normal_()
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    _, after = layer(x)
    _, k, v, beta, alpha = (x @ layer.projection.weight.T).split([6, 6, 8, 2, 2], dim=-1)
    learned = layer.gate_parameters["alpha"]
    beta = 1 / (1 + (-beta).exp())
    alpha = (-learned["log_rate"].exp().T * (1 + (alpha + learned["bias"].T).exp()).log()).exp()
    for row in range(2):
        for head in range(2):
            keys = layer.mapping(k[row, :, 3 * head : 3 * head + 3][None, None])[0][0, 0]
            values, weights = v[row, :, 4 * head : 4 * head + 4], torch.zeros(4, 6, dtype=torch.float64)
            for t in range(9):
                weights = alpha[row, t, head] * weights
                change = beta[row, t, head] * (values[t] - weights @ keys[t])
                weights = weights + torch.outer(change, keys[t])
            assert_close(after.weights[row, head], weights, rtol=1e-11, atol=1e-13)


def test_what_a_gate_learns_is_kept_saved_and_trained(rule: LinearRule) -> None:
    layer = FastWeightAttention(8, 2, update_rule=rule)
    names = [name for name, _ in layer.named_parameters() if name.startswith("gate_parameters")]
    assert names == ["gate_parameters.alpha.bias", "gate_parameters.alpha.log_rate"]
    assert set(names) <= layer.state_dict().keys()
    y, _ = layer(torch.randn(2, 5, 8))
    y.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())
    cross = FastWeightCrossAttention(8, 2, update_rule=rule)
    read, _ = cross(torch.randn(2, 3, 8), cross.write(torch.randn(2, 5, 8)))
    assert read.shape == (2, 3, 8)


def test_the_models_own_initialisation_leaves_the_gates_parameters(rule: LinearRule) -> None:
    attention = FastWeightAttentionConfig(update_rule=rule)
    config = LanguageModelConfig(
        vocabulary_size=20, model_dim=8, num_heads=2, num_layers=2, feed_forward_dim=8, attention=attention
    )
    model = LanguageModel(LanguageModelConfig.from_dict(config.to_dict()))
    for block in model.blocks:
        for name, initial in rule.gates[1].parameters(num_heads=2, components=1).items():
            assert torch.equal(block.attention.gate_parameters["alpha"][name], initial)
    hidden, states = model(torch.randint(20, (2, 7)))
    model.losses(hidden, torch.randint(20, (2, 7))).mean().backward()
    assert all(isinstance(state, FastWeightState) for state in states)
    assert all(p.grad is not None for name, p in model.named_parameters() if "cluster" not in name)


def test_padding_is_not_forgotten_and_not_written(rule: LinearRule) -> None:
    layer = FastWeightAttention(8, 2, update_rule=rule).double()
    x, mask = torch.randn(1, 6, 8, dtype=torch.float64), torch.tensor([[True, False, True, True, False, True]])
    _, padded = layer(x.masked_fill(~mask[..., None], torch.nan), None, mask)
    _, dense = layer(x[:, mask[0]])
    assert_close(padded.weights, dense.weights, rtol=1e-12, atol=1e-14)


def test_a_missing_gate_is_named() -> None:
    x = torch.rand(1, 1, 3, 4)
    state = FastWeightState.zeros(1, 1, 4, 4)
    with pytest.raises(ValueError, match=r"DeltaRule needs the gates beta, got \['alpha'\]"):
        run_rule(DeltaRule(), WriteInputs(x, x, {"alpha": torch.rand(1, 1, 3)}), x, state)
    run_rule(SumRule(), WriteInputs(x, x, {}), x, state)


@dataclass(frozen=True)
class ChannelDecayRule(LinearRule):
    """W ← W diag(σ(W_g x)) + v kᵀ: one gate for each component of the mapped key."""

    equations: ClassVar[str] = "-"
    gates: ClassVar[tuple[Gate, ...]] = (WriteStrength("keep", per="key"),)

    def step(self, weights: Tensor, key: Tensor, value: Tensor, gates: Any, normaliser: Tensor | None = None) -> Tensor:
        return weights * gates["keep"][..., None, :] + outer(value, key)

    def coefficients(self, keys: Tensor, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        ones = torch.ones_like(keys[..., 0])
        return Coefficients(erase=0 * ones, write=ones, decay=gates["keep"])


def test_a_gate_for_each_component_of_the_key() -> None:
    layer = FastWeightAttention(8, 2, key_dim=3, value_dim=4, update_rule=ChannelDecayRule()).double()
    assert layer.projection.weight.shape == (2 * (3 + 3 + 4 + 6), 8)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    _, keys, values, logits = layer._split(layer.projection(x), 3, 3, 4, 6)
    keys, weights = layer.mapping(keys)[0], torch.zeros(2, 2, 4, 6, dtype=torch.float64)
    for t in range(5):
        weights = weights * logits[:, :, t, None].sigmoid() + values[:, :, t, :, None] * keys[:, :, t, None]
    for layer.backend in BACKENDS:
        assert_close(layer(x)[1].weights, weights, rtol=1e-12, atol=1e-14)
