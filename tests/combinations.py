"""Every combination of rule, map and normalisation in the tables, and how one is run by the library and by equations.

A new line in UPDATE_RULES, FEATURE_MAPS or NORMALISATIONS is found here without an edit: its default is always among
the combinations, and the few lines of MORE add parameters worth a look.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

import equations
from fastweights.feature_maps import DPFP, FEATURE_MAPS, Favor, FeatureMap, RandomFeatureMap
from fastweights.layers import FastWeightAttention
from fastweights.layers.feature_projection import FeatureProjection
from fastweights.memory import (
    NORMALISATIONS,
    AttentionNormalisation,
    Call,
    FastWeightState,
    Normalisation,
    WriteInputs,
    backends,
    choose_backend,
    run_rule,
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
KEY_DIM = 3
"""Of the layers made from combinations."""

ATTENTION = (None, AttentionNormalisation(), AttentionNormalisation(retrieval=False))

# Lengths: nothing, one, primes, chunks of 16 and 64 and their neighbours. The first is where shrinking ends.
LENGTHS = (5, 0, 1, 2, 3, 4, 7, 9, 13, 16, 17, 33)
LAYOUTS = ("contiguous", "transposed", "strided", "expanded")


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
        """What `pairwise` counts pairs of."""
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
        if self.needs_normaliser and not self.feature_map.positive:
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


@dataclass(frozen=True)
class Case:
    """Sizes, precision and memory layout of one random problem."""

    batch: int
    heads: int
    steps: int
    key_dim: int
    value_dim: int
    dtype: torch.dtype
    layout: str
    starts_empty: bool
    seed: int


def cases(key_dims: list[int]) -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        batch=st.sampled_from([1, 2, 3]),
        heads=st.sampled_from([1, 2]),
        steps=st.sampled_from(LENGTHS),
        key_dim=st.sampled_from(key_dims),
        value_dim=st.sampled_from([5, 4, 9]),
        dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
        layout=st.sampled_from(LAYOUTS),
        starts_empty=st.booleans(),
        seed=st.integers(0, 2**20),
    )


class Inputs(NamedTuple):
    """What gradients are asked for: keys and queries before the map, values, β, W_0 and z_0."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    strengths: Tensor
    weights: Tensor
    normaliser: Tensor | None


class Results(NamedTuple):
    """What agreement is asked of."""

    reads: Tensor
    weights: Tensor
    normaliser: Tensor | None
    gradients: dict[str, Tensor]


def draw_inputs(combination: Combination, case: Case) -> tuple[Inputs, Tensor | None]:
    """A random problem that is well conditioned: strengths are such that 0.1 ≤ 1 - a k·k ≤ 1 at every step.

    Beyond 1 in size a write amplifies what is stored, and rounding errors with it, at every step; near 0 hardly more
    than rounding errors is left of what was stored.
    """
    generator = torch.Generator().manual_seed(case.seed)
    b, h, t, d, v = case.batch, case.heads, case.steps, case.key_dim, case.value_dim
    writes = t * combination.rule.writes_per_step
    weights_dtype = torch.promote_types(case.dtype, torch.float32)

    def normal(*shape: int) -> Tensor:
        return lay_out(torch.randn(*shape, generator=generator, dtype=torch.float64).to(case.dtype), case.layout)

    queries, keys, values = normal(b, h, t, d), normal(b, h, writes, d), normal(b, h, writes, v)
    earlier = normal(b, h, 3, d)
    feature_map, projection = combination.feature_map, None
    if isinstance(feature_map, RandomFeatureMap):
        projection = feature_map.draw(d, generator)
    k, before = (_mapped(combination, x.double(), projection) for x in (keys, earlier))
    normaliser = before.sum(2) * (0.0 if case.starts_empty else 1.0)
    weights = torch.randn(b, h, v, k.shape[-1], generator=generator) * (0.0 if case.starts_empty else 0.3)
    overlaps = equations.dot(normaliser[:, :, None] + k.cumsum(2) - k, k)
    squares = equations.dot(k, k)
    # a is β or, with a normaliser, β / (z·k).
    largest = torch.where(overlaps > 0, overlaps.clamp(max=1), 1.0) if combination.needs_normaliser else 1.0
    strengths = 0.9 * torch.rand(b, h, writes, generator=generator, dtype=torch.float64) * largest
    strengths = strengths / squares.clamp(min=1)
    return (
        Inputs(
            queries,
            keys,
            values,
            lay_out(strengths.to(case.dtype), case.layout),
            lay_out(weights.to(weights_dtype), case.layout),
            normaliser.to(weights_dtype) if combination.needs_normaliser else None,
        ),
        projection,
    )


def lay_out(x: Tensor, layout: str) -> Tensor:
    """The same values in another memory layout; `expanded` repeats the first row without storing it again."""
    if layout == "transposed":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "strided":
        return torch.stack([x, torch.full_like(x, math.nan)], dim=-1)[..., 0]
    if layout == "expanded":
        return x[:1].expand_as(x)
    return x


def run_library(combination: Combination, inputs: Inputs, projection: Tensor | None, backend: str) -> Results:
    """Map, normalise and run by one backend."""
    leaves = _leaves(inputs)
    mapping = FeatureProjection(leaves.keys.shape[-1], combination.feature_map, combination.normalisation)
    if projection is not None:
        mapping.projection = projection
    keys, log_scales = mapping(leaves.keys)
    queries, _ = mapping(leaves.queries)
    b, h, t, _ = queries.shape
    log_scale = leaves.weights.new_zeros(b, h) if combination.keeps_scale_apart else None
    reads, after = run_rule(
        combination.rule,
        WriteInputs(
            keys, leaves.values, gates_of(combination.rule, leaves.strengths, keys, leaves.values), None, log_scales
        ),
        queries,
        FastWeightState(leaves.weights, leaves.normaliser, torch.zeros(b, dtype=torch.int64), log_scale),
        attention_normalisation=combination.attention,
        backend=backend,
    )
    assert after.steps.tolist() == [t] * b
    scale = 1.0 if after.log_scale is None else after.log_scale.exp()[..., None]
    normaliser = None if after.normaliser is None else after.normaliser * scale
    weights = after.weights if after.log_scale is None else after.weights * scale[..., None]
    return _with_gradients(leaves, reads, weights, normaliser)


def run_equations(combination: Combination, inputs: Inputs, projection: Tensor | None, direction: int = 1) -> Results:
    """The same in float64 by the paper's equations."""
    leaves = _leaves(Inputs(*(None if x is None else x.double() for x in inputs)))
    queries, keys = (_mapped(combination, x, projection) for x in leaves[:2])
    gates = gates_of(combination.rule, leaves.strengths, keys, leaves.values)
    reads, weights, normaliser = equations.run(
        combination.rule, combination.attention, queries, keys, leaves.values, gates, *leaves[4:]
    )
    return _with_gradients(leaves, reads, weights, normaliser, direction)


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


def relative_error(actual: Tensor, expected: Tensor, *parts: Tensor) -> float:
    """|x - y| / |y| in the Frobenius norm or, where y is a difference of larger `parts`, relative to those."""
    difference = torch.linalg.vector_norm(actual.double() - expected.double()).item()
    scale = max(torch.linalg.vector_norm(x.double()).item() for x in (expected, *parts))
    return 0.0 if difference == 0 else difference / scale if scale else math.inf


def _leaves(inputs: Inputs) -> Inputs:
    return Inputs(*(None if x is None else x.detach().requires_grad_() for x in inputs))


def _with_gradients(
    leaves: Inputs, reads: Tensor, weights: Tensor, normaliser: Tensor | None, direction: int = 1
) -> Results:
    """Gradients of a fixed random combination of everything that comes out."""
    generator = torch.Generator().manual_seed(direction)
    outputs = [x for x in (reads, weights, normaliser) if x is not None]
    given = {name: x for name, x in leaves._asdict().items() if x is not None}
    directions = [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.dtype) for x in outputs]
    found = torch.autograd.grad(outputs, list(given.values()), directions, allow_unused=True)
    gradients = {
        name: torch.zeros_like(x) if gradient is None else gradient
        for (name, x), gradient in zip(given.items(), found, strict=True)
    }
    return Results(reads.detach(), weights.detach(), None if normaliser is None else normaliser.detach(), gradients)


def _mapped(combination: Combination, x: Tensor, projection: Tensor | None) -> Tensor:
    return equations.normalised(combination.normalisation, equations.features(combination.feature_map, x, projection))


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
