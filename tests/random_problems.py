"""Random problems for one combination, and how each is run by the library and by the equations."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

import equations
from combinations import Combination, gates_of
from fastweights.feature_maps import RandomFeatureMap
from fastweights.layers.feature_projection import FeatureProjection
from fastweights.memory import CentredL2, FastWeightState, WriteInputs, run_rule

# Lengths: nothing, one, primes, chunks of 16 and 64 and their neighbours. The first is where shrinking ends.
LENGTHS = (5, 0, 1, 2, 3, 4, 7, 9, 13, 16, 17, 33)
LAYOUTS = ("contiguous", "transposed", "strided", "expanded")


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
    than rounding errors is left of what was stored. Where features are centred, they differ from each other: the
    difference of numbers that are nearly equal is mostly rounding error.
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
    if isinstance(combination.normalisation, CentredL2):
        for _ in range(50):
            queries, keys = (
                torch.where(_nearly_equal(combination, x, projection), normal(*x.shape), x) for x in (queries, keys)
            )
        queries, keys = lay_out(queries, case.layout), lay_out(keys, case.layout)
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


def _nearly_equal(combination: Combination, x: Tensor, projection: Tensor | None) -> Tensor:
    """Which vectors have features that differ by less than half of their size."""
    features = equations.features(combination.feature_map, x.double(), projection)
    spread = (features - features.mean(-1, keepdim=True)).norm(dim=-1)
    return (spread < 0.5 * features.norm(dim=-1))[..., None]


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
