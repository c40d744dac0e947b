"""What an update rule has to offer: its definition and, if it is linear in W, its coefficients."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from fastweights.shapes import Key, Keys, Normaliser, Queries, Strength, Strengths, Value, Values, Weights


class Coefficients(NamedTuple):
    """a, b, g of  W_t = g_t W_{t-1} (I - a_t k_t k_tᵀ) + b_t v_t k_tᵀ."""

    erase: Strengths
    write: Strengths
    decay: Strengths | None = None


@dataclass(frozen=True)
class UpdateRule(ABC):
    """W_t from W_{t-1}, a key, a value and a write strength. A rule that is no `LinearRule` runs step by step only."""

    equations: ClassVar[str]
    """Where the rule stands in the paper."""

    uses_strength: ClassVar[bool] = True
    """Whether the rule looks at the write strength β; if not, a layer does not compute one."""

    needs_normaliser: ClassVar[bool] = False
    """Whether `step` divides its retrieval by the normaliser z, and `coefficients` by the overlaps z·k."""

    @abstractmethod
    def step(
        self,
        weights: Weights,
        key: Key,
        value: Value,
        strength: Strength,
        normaliser: Normaliser | None = None,
    ) -> Weights:
        """One write, straight from the equation; `normaliser` is z before this step."""

    def read(self, weights: Weights, queries: Queries) -> Values:
        """y = W q, for any number of queries."""
        return torch.einsum("bhvk,bhtk->bhtv", weights, queries)

    def with_attention_normalisation(self) -> "UpdateRule":
        """The rule whose own retrievals are divided by z·k (Eq. 27); rules that retrieve nothing stay as they are."""
        return self


@dataclass(frozen=True)
class LinearRule(UpdateRule):
    """W_t = g_t W_{t-1} (I - a_t k_t k_tᵀ) + b_t v_t k_tᵀ: a rule that is linear in W, hence nothing but (a, b, g)."""

    follows_scale: ClassVar[bool] = False
    """Whether keys c times as long make W c times as large and nothing else: b stays, a falls as 1/c². Keys whose scale
    is kept apart (stabilised FAVOR+ without normalisation) need that."""

    @abstractmethod
    def coefficients(self, keys: Keys, strengths: Strengths, overlaps: Strengths | None = None) -> Coefficients:
        """What `fast_weight_scan` needs for a whole sequence; `overlaps` are z_{t-1} · k_t."""


def retrieve(weights: Weights, key: Key) -> Value:
    """v̄ = W k (Eq. 20)."""
    return torch.einsum("bhvk,bhk->bhv", weights, key)


def outer(value: Value, key: Key) -> Weights:
    """v ⊗ k."""
    return torch.einsum("bhv,bhk->bhvk", value, key)
