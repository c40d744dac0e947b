"""Which write erased what another one had written, and which writes a read is made of: two attention-like views.

    W_t = Σ_{s ≤ t} c_s (g_t ∘ … ∘ g_{s+1} ∘ k_s)ᵀ        c_s = b_s ∘ v_s - a_s M_s e_s  is what write s adds

so write t takes a_t (g_t ∘ … ∘ k_s)·e_t of what write s added, and a read takes (g_t ∘ … ∘ k_s)·q_t of it.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from fastweights.memory.run import at_last_writes
from fastweights.memory.trace import Observation, trace
from fastweights.memory.traced_writes import coefficients_along
from fastweights.update_rules import LinearRule
from fastweights.update_rules.normalised_delta import reciprocal_or_zero

Pairs = Float[Tensor, "b h t s"]


class Influences(NamedTuple):
    """Weights between writes s and later writes and reads t of one sequence; zero above the diagonal."""

    erased: Pairs
    """How much of what write s added write t takes away; zero on the diagonal."""
    read: Pairs
    """How much of what write s added the read after write t takes; zero where there is none."""


@torch.no_grad()
def influences(observation: Observation) -> Influences | None:
    """Both views of a sequence that was written; None for a rule that is not linear in W. Takes t² numbers."""
    rule, attention = observation.rule, observation.attention_normalisation
    if attention is not None and attention.retrieval:
        rule = rule.with_attention_normalisation()
    if not isinstance(rule, LinearRule) or observation.writes.log_scales is not None:
        return None
    writes = observation.writes.of_single_writes(rule).without_padding()
    writes = writes.to(torch.promote_types(writes.keys.dtype, torch.float32))
    (erase, _, decay, lookups), _ = coefficients_along(rule, writes, observation.before, observation.backend)
    keys = writes.keys
    lookups = keys if lookups is None else lookups
    queries = torch.zeros_like(keys)
    if observation.queries is not None:
        queries = at_last_writes(observation.queries.to(keys.dtype), rule.writes_per_step)
    if decay is None:
        erased, read = erase[..., None] * (lookups @ keys.mT).tril(-1), (queries @ keys.mT).tril()
    else:
        erased, read = _of_aged_keys(keys, lookups, queries, erase, decay)
    if attention is not None and observation.queries is not None:
        overlaps = trace(observation)[0]["overlap"].nan_to_num()
        read = read * reciprocal_or_zero(overlaps)[..., None]
    return Influences(erased, read)


def _of_aged_keys(keys: Tensor, lookups: Tensor, queries: Tensor, erase: Tensor, decay: Tensor) -> tuple[Pairs, Pairs]:
    """The same where what a write added decays with every later one, step by step."""
    erased, read = (keys.new_zeros(*keys.shape[:3], keys.shape[2]) for _ in range(2))
    aged = keys.clone()
    for t in range(keys.shape[2]):
        aged[:, :, :t] *= (decay if decay.dim() == 4 else decay[..., None])[:, :, t : t + 1]
        erased[:, :, t, :t] = erase[:, :, t, None] * torch.einsum("bhsk,bhk->bhs", aged[:, :, :t], lookups[:, :, t])
        read[:, :, t, : t + 1] = torch.einsum("bhsk,bhk->bhs", aged[:, :, : t + 1], queries[:, :, t])
    return erased, read
