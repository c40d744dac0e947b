"""Normalisations of mapped keys and queries, and attention normalisation (Sec. 4.2, "Normalisation")."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from typing_extensions import override

from fastweights.kernels.features import NormalisationKernel
from fastweights.shapes import Features


@dataclass(frozen=True)
class Normalisation(ABC):
    """φ'(x): normalises each mapped key and query before it is written or read."""

    equations: ClassVar[str]
    """The equations of the normalisation in the paper."""

    forgets_scale: ClassVar[bool] = True
    """True if φ and c·φ give the same result, so that the scale of the features does not matter."""

    keeps_sign: ClassVar[bool] = True
    """True if features that are never negative stay so, as attention normalisation requires."""

    fewest_features: ClassVar[int] = 1
    """Of fewer features the normalisation leaves nothing."""

    kernel: ClassVar[NormalisationKernel | None] = None
    """Its name for `kernels.features.fused_features`, if compiled feature maps can apply it in the same pass."""

    @abstractmethod
    def __call__(self, features: Features) -> Features:
        """Normalise the last dimension; features that are all zero stay zero."""


@dataclass(frozen=True)
class NoNormalisation(Normalisation):
    """φ'(x) = φ(x)."""

    equations: ClassVar[str] = "20-25"
    forgets_scale: ClassVar[bool] = False
    kernel: ClassVar[NormalisationKernel | None] = "none"

    @override
    def __call__(self, features: Features) -> Features:
        return features


@dataclass(frozen=True)
class SumNormalisation(Normalisation):
    """φ'(x) = φ(x) / Σ_j |φ(x)_j|.

    For the non-negative maps of the paper this is its sum normalisation, which balances what a write adds and what it
    removes (App. A.2). Features of either sign could sum to zero; their magnitudes cannot.
    """

    equations: ClassVar[str] = "29"
    kernel: ClassVar[NormalisationKernel | None] = "sum"

    @override
    def __call__(self, features: Features) -> Features:
        scaled = _scale_to_one(features)
        return (scaled / scaled.abs().sum(dim=-1, keepdim=True).clamp(min=1)).to(features.dtype)


@dataclass(frozen=True)
class L2Normalisation(Normalisation):
    """φ'(x) = φ(x) / |φ(x)|₂: a write of strength 1 then replaces the old value in full."""

    equations: ClassVar[str] = "-"
    kernel: ClassVar[NormalisationKernel | None] = "l2"

    @override
    def __call__(self, features: Features) -> Features:
        scaled = _scale_to_one(features)
        norm = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
        return (scaled / norm.clamp(min=1)).to(features.dtype)


@dataclass(frozen=True)
class CentredL2(Normalisation):
    """φ'(x) = c / |c|₂  with  c = φ(x) - mean_j φ(x)_j.

    Features that are never negative have a direction in common, (1, …, 1), along which every write also writes and
    every query also reads. Centring takes it out; a write of strength 1 then replaces the old value in full and leaves
    more of the others as they were. Features that are all equal have nothing else and become zero.
    """

    equations: ClassVar[str] = "-"
    keeps_sign: ClassVar[bool] = False
    fewest_features: ClassVar[int] = 2
    kernel: ClassVar[NormalisationKernel | None] = "centred-l2"

    @override
    def __call__(self, features: Features) -> Features:
        centred = _scale_to_one(features)
        # Twice: what rounding left of the mean could be as large as the differences of features that are nearly equal.
        for _ in range(2):
            centred = centred - centred.mean(dim=-1, keepdim=True)
        norm = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
        return (centred / norm.masked_fill(norm == 0, torch.inf)).to(features.dtype)


NORMALISATIONS: dict[str, type[Normalisation]] = {
    "none": NoNormalisation,
    "sum": SumNormalisation,
    "l2": L2Normalisation,
    "centred-l2": CentredL2,
}


@dataclass(frozen=True)
class AttentionNormalisation:
    """z ← z + k,   v̄ = W k / (z·k),   y = W q / (z·q).

    With `retrieval=False` only the output y is divided, and v̄ = W k as without normalisation.
    """

    retrieval: bool = True

    equations: ClassVar[str] = "19, 26-28"


def _scale_to_one(features: Features) -> Features:
    """Divide features by their largest magnitude, in at least float32: neither sums nor squares overflow or vanish.

    Below tiny^0.75 (4e-29 in float32) features count as zero: dividing by less would overflow in the gradient. The
    result of a normalisation does not depend on the scale, so none of its gradient is lost by detaching it.
    """
    features = features.to(torch.promote_types(features.dtype, torch.float32))
    scale = features.detach().abs().amax(dim=-1, keepdim=True)
    vanishes = scale <= torch.finfo(features.dtype).tiny ** 0.75
    return features / scale.masked_fill(vanishes, torch.inf)
