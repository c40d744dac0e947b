"""Every combination of rule, map and normalisation in the tables, and which backends can run it.

A new line in UPDATE_RULES, FEATURE_MAPS or NORMALISATIONS is found here without an edit: its default is always among
the combinations, and the few lines of MORE add parameters worth a look.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from fastweights.feature_maps import DPFP, FEATURE_MAPS, Favor, FeatureMap
from fastweights.kernels.triton import availability
from fastweights.layers import FastWeightAttention
from fastweights.memory import (
    NORMALISATIONS,
    AttentionNormalisation,
    Call,
    Normalisation,
    backends,
    choose_backend,
)
from fastweights.update_rules import (
    UPDATE_RULES,
    Decay,
    DecayedSumRule,
    DeltaProductRule,
    FastWeightMemoryRule,
    GatedLinearDecay,
    LinearRule,
    Mamba2Decay,
    ProgrammerRule,
    UpdateRule,
)

MORE: tuple[FeatureMap | UpdateRule, ...] = (
    DPFP(nu=2),
    DPFP(nu=3),
    Favor(num_features=5, orthogonal=False),
    Favor(num_features=7, kind="relu"),
    Favor(num_features=6, stabilised=True),
    FastWeightMemoryRule(layer_norm=False),
    ProgrammerRule(activation="identity"),
    ProgrammerRule(activation="relu"),
    DeltaProductRule(3, gated=True),
    DecayedSumRule(GatedLinearDecay()),
)


INTERPRETED = availability.interpreted() and availability.unavailable() is None
"""Whether Triton's interpreter runs here (`make test-gpu`): it serves CPU tensors, and takes a second for a problem."""


def examples(count: int) -> int:
    """How many problems to draw of each kind: fewer where every one of them is also interpreted."""
    return min(count, 2) if INTERPRETED else count


KEY_DIM = 3
"""Of the layers made from combinations."""


ATTENTION = (None, AttentionNormalisation(), AttentionNormalisation(retrieval=False))


@dataclass(frozen=True)
class Combination:
    """One choice of each kind."""

    rule: UpdateRule
    feature_map: FeatureMap
    normalisation: Normalisation
    attention: AttentionNormalisation | None

    def __str__(self) -> str:
        attention = {None: "none", True: "full", False: "output"}[self.attention and self.attention.retrieval]
        return f"{self.rule}-{self.feature_map}-{type(self.normalisation).__name__}-attention={attention}"

    @property
    def options(self) -> tuple[object, ...]:
        """What `pairwise` counts pairs of; kernels that are interpreted see of the map only how large keys may be."""
        if INTERPRETED:
            return self.rule, self.attention, self.normalisation.forgets_scale
        return self.rule, self.feature_map, self.normalisation, self.attention

    @property
    def keeps_scale_apart(self) -> bool:
        stabilised = isinstance(self.feature_map, Favor) and self.feature_map.stabilised
        return stabilised and not self.normalisation.forgets_scale

    @property
    def needs_normaliser(self) -> bool:
        return self.attention is not None or self.rule.needs_normaliser

    @property
    def makes_sense(self) -> bool:
        """Whether a layer accepts it: see its errors for why the others are refused."""
        if self.needs_normaliser and not (self.feature_map.positive and self.normalisation.keeps_sign):
            return False
        if not self.keeps_scale_apart:
            return True
        rule = self.rule.with_attention_normalisation()
        divides_everything = self.attention is not None and self.attention.retrieval
        return divides_everything and isinstance(rule, LinearRule) and rule.follows_scale

    @property
    def key_dims(self) -> list[int]:
        """Key sizes for which the map gives no warning."""
        return [dim for dim in (4, 1, 2, 3, 6) if _fits(self.feature_map, dim)]

    def layer(self, model_dim: int = 8, num_heads: int = 2, value_dim: int = 4, **more: object) -> FastWeightAttention:
        """A layer with its random features fixed; a ValueError if the choices do not go together."""
        torch.manual_seed(0)
        return FastWeightAttention(
            model_dim,
            num_heads,
            key_dim=KEY_DIM,
            value_dim=value_dim,
            feature_map=self.feature_map,
            update_rule=self.rule,
            normalisation=self.normalisation,
            attention_normalisation=self.attention,
            **more,
        ).eval()

    def backends(self, dtype: torch.dtype = torch.float32) -> list[str]:
        """The backends that can run it here."""
        return usable_backends(dtype, self.rule)


def combinations(more: tuple[FeatureMap | UpdateRule, ...] = MORE) -> Iterator[Combination]:
    """Everything in the tables as they are now."""
    rules = [cls() for cls in UPDATE_RULES.values()] + [x for x in more if isinstance(x, UpdateRule)]
    maps = [cls() for cls in FEATURE_MAPS.values()] + [x for x in more if isinstance(x, FeatureMap)]
    normalisations = [cls() for cls in NORMALISATIONS.values()]
    every = (Combination(*choice) for choice in product(rules, maps, normalisations, ATTENTION))
    return (combination for combination in every if combination.makes_sense)


CHOICES = list(combinations((DPFP(nu=2), Favor(num_features=5, kind="relu"), Favor(num_features=7, stabilised=True))))
"""Fewer, for tests of whole layers."""


def usable_backends(dtype: torch.dtype, rule: UpdateRule | None = None) -> list[str]:
    """All backends that can serve such a call here."""
    if rule is not None and not isinstance(rule, LinearRule):
        return ["recurrent"]
    call = Call(torch.device("cpu"), dtype, steps=2)
    if rule is not None:
        ones = torch.ones(1, 1, 2 * rule.writes_per_step, 1)
        coefficients = rule.coefficients(
            ones, rule.gates_per_write(gates_of(rule, ones[..., 0], ones, ones)), ones[..., 0]
        )
        call = Call.of(ones.to(dtype), coefficients.decay, coefficients.lookups, differentiable=True)
    return [name for name, status in backends().items() if status.available and _serves(name, call)]


def gates_of(rule: UpdateRule, strengths: Tensor, keys: Tensor, values: Tensor) -> dict[str, Tensor]:
    """Numbers in [0, 1] for each gate of a rule, all different: the write strengths for the first, if it is no decay.

    Decays are not so small that a normaliser falls below what counts as zero. Of gates with components, those of the
    last one are zero, so that a decay is exactly zero there.
    """
    gates = {}
    for number, gate in enumerate(rule.gates):
        # In float64: bfloat16 would round a decay, which then acts at every step.
        first = number == 0 and not isinstance(gate, Decay)
        value = strengths if first else 1 - strengths.double() / (number + 2)
        value = value if gate.each_write else value[:, :, :: rule.writes_per_step]
        if gate.per != "head":
            components = torch.linspace(1, 0.5, (keys if gate.per == "key" else values).shape[-1])
            components[1:][-1:] = 0
            value = value[..., None] * components
        gates[gate.label] = torch.stack([value, 1 - value / 2], dim=-1) if isinstance(gate, Mamba2Decay) else value
    return gates


def _fits(feature_map: FeatureMap, key_dim: int) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            feature_map.feature_dim(key_dim)
        except (UserWarning, ValueError):
            return False
    return True


def _serves(backend: str, call: Call) -> bool:
    try:
        return choose_backend(backend, call) == backend
    except ValueError:
        return False
