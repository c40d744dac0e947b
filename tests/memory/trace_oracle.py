"""What a trace should hold, from the definitions: one step after the other, in float64, from the rule's own `step`."""

import math

import torch
from torch import Tensor

from fastweights.memory import Observation
from fastweights.update_rules import Decay, LinearRule, UpdateRule


def expected_trace(observations: list[Observation]) -> dict[str, Tensor]:
    """The trace of calls that continue each other, from an empty memory."""
    first = observations[0]
    state = first.before
    weights = torch.zeros_like(state.weights, dtype=torch.float64)
    z = None if state.normaliser is None else torch.zeros_like(state.normaliser, dtype=torch.float64)
    steps: list[dict[str, Tensor]] = []
    for observation in observations:
        weights, z = _call(observation, weights, z, steps)
    return {name: torch.stack([step[name] for step in steps], dim=2) for name in steps[0]}


def _call(
    observation: Observation, weights: Tensor, z: Tensor | None, steps: list[dict[str, Tensor]]
) -> tuple[Tensor, Tensor | None]:
    rule, attention, writes = observation.rule, observation.attention_normalisation, observation.writes
    divides = rule.needs_normaliser or (attention is not None and attention.retrieval)
    rule = rule.with_attention_normalisation() if attention is not None and attention.retrieval else rule
    count, gates = rule.writes_per_step, rule.gates_per_write(writes.gates)
    for t in range(writes.keys.shape[2]):
        step, last = t // count, t % count == count - 1
        key, value = writes.keys[:, :, t].double(), writes.values[:, :, t].double()
        if writes.log_scales is not None:
            key = key * writes.log_scales[:, :, t, None].double().exp()
        now = {name: gate[:, :, t].double() for name, gate in gates.items()}
        if writes.boundaries is not None and t % count == 0:
            begins = writes.boundaries[:, step]
            weights = torch.where(begins[:, None, None, None], 0.0, weights)
            z = None if z is None else torch.where(begins[:, None, None], 0.0, z)
        real = torch.ones(len(key), dtype=torch.bool) if writes.mask is None else writes.mask[:, step]
        key, value = (torch.where(real[:, None, None], x, 0.0) for x in (key, value))
        query = observation.queries[:, :, step].double() if last and observation.queries is not None else None
        read = observation.reads[:, :, step].double() if last and observation.reads is not None else None
        row, after, z_after = _write(rule, weights, z, key, value, now, query, read, divides)
        weights = torch.where(real[:, None, None, None], after, weights)
        z = None if z is None or z_after is None else torch.where(real[:, None, None], z_after, z)
        steps.append({name: torch.where(real[:, None], x, torch.nan) for name, x in row.items()})
    return weights, z


def _write(
    rule: UpdateRule,
    weights: Tensor,
    z: Tensor | None,
    key: Tensor,
    value: Tensor,
    gates: dict[str, Tensor],
    query: Tensor | None,
    read: Tensor | None,
    divides: bool,
) -> tuple[dict[str, Tensor], Tensor, Tensor | None]:
    after = rule.step(weights, key, value, gates, z)
    decay = _decay(rule, gates, key)
    found = weights * decay[..., None, :]
    z_found = None if z is None else z * decay
    z_after = None if z_found is None else z_found + key
    strength = gates["beta"] if "beta" in gates else torch.ones_like(key[..., 0])
    balance = eigenvalue = torch.full_like(key[..., 0], torch.nan)
    written = torch.einsum("bh,bhv,bhk->bhvk", strength, value, key)
    if isinstance(rule, LinearRule):
        overlap = None if z is None else (z * key).sum(-1)[..., None]
        a, b, _, e = (
            None if x is None else x[:, :, 0]
            for x in rule.coefficients(
                key[:, :, None], {name: gate[:, :, None] for name, gate in gates.items()}, overlap
            )
        )
        e = key if e is None else e
        balance = a * e.sum(-1) / (b.mean(-1) if b.dim() == 3 else b)
        eigenvalue = a * (e * key).sum(-1)
        strength = gates.get("beta", b)
        written = torch.einsum("bhv,bhk->bhvk", (b if b.dim() == 3 else b[..., None]) * value, key)
    before = torch.einsum("bhvk,bhk->bhv", found, key)
    stored = torch.einsum("bhvk,bhk->bhv", after, key)
    if divides:
        before, stored = (
            _divided(x, (y * key).sum(-1)) for x, y in ((before, z_found), (stored, z_after)) if y is not None
        )
    share = strength if strength.dim() == 3 else strength[..., None]
    new_value = share * value + (1 - share) * before
    asked = (new_value - before).norm(dim=-1)
    nothing = asked <= 1e-6 * value.norm(dim=-1)
    nan = torch.full_like(key[..., 0], torch.nan)
    row = {
        "strength": share.mean(-1),
        "key_square": key.square().sum(-1),
        "key_sum": key.abs().sum(-1),
        "balance": balance,
        "landing": torch.where(nothing, nan, ((stored - before) * (new_value - before)).sum(-1) / asked**2),
        "miss": torch.where(nothing, nan, (stored - new_value).norm(dim=-1) / asked),
        "eigenvalue": eigenvalue,
        "value": value.norm(dim=-1),
        "retrieved": before.norm(dim=-1),
        "new_value": new_value.norm(dim=-1),
        "stored": stored.norm(dim=-1),
        "cosine": (before * value).sum(-1) / (before.norm(dim=-1) * value.norm(dim=-1)),
        "contrast": (value - before).norm(dim=-1) / (value.norm(dim=-1) + before.norm(dim=-1)),
        "error_before": (value - before).norm(dim=-1) / value.norm(dim=-1),
        "error_after": (stored - value).norm(dim=-1) / value.norm(dim=-1),
        "write": written.norm(dim=(-2, -1)),
        "remove": (found + written - after).norm(dim=(-2, -1)),
        "weights": after.norm(dim=(-2, -1)),
        "normaliser": nan if z_after is None else z_after.norm(dim=-1),
        "overlap": nan if z_after is None or query is None else (z_after * query).sum(-1),
        "read": nan if read is None else read.norm(dim=-1),
    }
    return row, after, z_after


def _decay(rule: UpdateRule, gates: dict[str, Tensor], key: Tensor) -> Tensor:
    """g for every component of the key; one where the rule has no decay."""
    for gate in rule.gates:
        if isinstance(gate, Decay):
            decay = gate.split(gates[gate.label])[0]
            return (decay if decay.dim() == 3 else decay[..., None]).expand_as(key)
    return torch.ones_like(key)


def _divided(x: Tensor, overlap: Tensor) -> Tensor:
    return torch.where(overlap[..., None].abs() < 1e-12, 0.0, x / overlap[..., None])


def relative_difference(actual: Tensor, expected: Tensor, least: float = 0.0) -> float:
    """|x - y| / |y|, with no y below `least`, over the numbers that are defined; infinite if not the same ones are."""
    if not torch.equal(actual.isnan(), expected.isnan()):
        return math.inf
    real = ~expected.isnan()
    difference = (actual.double() - expected)[real].norm().item()
    return difference / expected[real].abs().clamp(min=least).norm().item() if difference else 0.0
