"""The interface of an update rule: its gates, its definition and, if it is linear in W, its coefficients."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from fastweights.shapes import (
    Gates,
    Key,
    Keys,
    Normaliser,
    PerKey,
    PerStep,
    PerValue,
    Queries,
    StepGates,
    Value,
    Values,
    Weights,
)
from fastweights.update_rules.gates import Gate


class Coefficients(NamedTuple):
    """a, b, g, e of  W_t = W_{t-1} diag(g_t) (I - a_t e_t k_tᵀ) + (b_t ∘ v_t) k_tᵀ;  e is the key itself if absent."""

    erase: PerStep
    write: PerStep | PerValue
    decay: PerStep | PerKey | None = None
    lookups: Keys | None = None


@dataclass(frozen=True)
class UpdateRule(ABC):
    """W_t from W_{t-1}, a key, a value and the rule's gates. A rule that is no `LinearRule` runs step by step only."""

    equations: ClassVar[str]
    """The equations of the rule in the paper."""

    needs_normaliser: ClassVar[bool] = False
    """True if `step` divides its retrieval by the normaliser z, and `coefficients` by the overlaps z·k."""

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The numbers that the rule asks for at every step; a layer computes them from its input."""
        return ()

    @property
    def writes_per_step(self) -> int:
        """How many keys and values each step writes, one after the other, before it reads."""
        return 1

    def gates_per_write(self, gates: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The gates for every single write, from those for every write and those for every step."""
        return gates

    @abstractmethod
    def step(
        self,
        weights: Weights,
        key: Key,
        value: Value,
        gates: StepGates,
        normaliser: Normaliser | None = None,
    ) -> Weights:
        """One write, straight from the equation; `normaliser` is z before this step."""

    def read(self, weights: Weights, queries: Queries) -> Values:
        """y = W q, for any number of queries."""
        return torch.einsum("bhvk,bhtk->bhtv", weights, queries)

    def with_attention_normalisation(self) -> "UpdateRule":
        """The rule whose own retrievals are divided by z·k (Eq. 27), with the same gates; by default itself."""
        return self


@dataclass(frozen=True)
class LinearRule(UpdateRule):
    """W_t = W_{t-1} diag(g_t) (I - a_t e_t k_tᵀ) + b_t v_t k_tᵀ: a rule that is linear in W is (a, b, g, e)."""

    follows_scale: ClassVar[bool] = False
    """True if keys c times as long make W c times as large and nothing else: b stays, a falls as 1/c². Keys whose scale
    is kept apart (stabilised FAVOR+ without normalisation) need that."""

    @abstractmethod
    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        """The coefficients of `fast_weight_scan` for a whole sequence; `overlaps` are z_{t-1} · k_t."""


def retrieve(weights: Weights, key: Key) -> Value:
    """v̄ = W k (Eq. 20)."""
    return torch.einsum("bhvk,bhk->bhv", weights, key)


def outer(value: Value, key: Key) -> Weights:
    """v ⊗ k."""
    return torch.einsum("bhv,bhk->bhvk", value, key)
