"""The paper's equations written out one step at a time, in whatever precision comes in: float64 makes them the oracle.

Nothing here calls the library's own arithmetic. A rule, map or normalisation that the paper does not know is taken at
its word: its `step` or `__call__` is its definition.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from fastweights.feature_maps import DPFP, EluPlusOne, Favor, FeatureMap, Identity, Relu, SiLU, SoftmaxFeatures, Tanh
from fastweights.memory import (
    AttentionNormalisation,
    CentredL2,
    L2Normalisation,
    NoNormalisation,
    Normalisation,
    SumNormalisation,
)
from fastweights.update_rules import (
    DecayedSumRule,
    DeltaProductRule,
    DeltaRule,
    FastWeightMemoryRule,
    GatedDeltaRule,
    GatedDeltaRule2,
    KimiDeltaRule,
    LinearRule,
    Mamba2Decay,
    NormalisedDeltaRule,
    NormalisedStep,
    ProgrammerRule,
    SumRule,
    UpdateRule,
)

Gates = dict[str, Tensor]
Step = Callable[[Tensor, Tensor, Tensor, Gates, Tensor | None], Tensor]

_divisors_are_constant = False
_reads_are_sums_of_sizes = False


@contextmanager
def constant_divisors() -> Iterator[None]:
    """Gradients without the part that flows through divisors.

    Normalised vectors do not change with their length, so a gradient can vanish as the difference of two parts. This
    gives one of the parts, the scale on which rounding errors of the difference have to be judged.
    """
    global _divisors_are_constant
    _divisors_are_constant = True
    yield
    _divisors_are_constant = False


@contextmanager
def sizes_of_terms() -> Iterator[None]:
    """Reads |W| |q| instead of W q: the scale on which rounding errors of a sum that cancels have to be judged."""
    global _reads_are_sums_of_sizes
    _reads_are_sums_of_sizes = True
    yield
    _reads_are_sums_of_sizes = False


def run(
    rule: UpdateRule,
    attention: AttentionNormalisation | None,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    gates: dict[str, Tensor],
    weights: Tensor,
    normaliser: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Reads after each step, the final W and the final z."""
    step, count = step_of(rule, divides_retrieval=attention is not None and attention.retrieval), rule.writes_per_step
    reads = [values[:, :, :0]]
    for i, (k, v) in enumerate(zip(keys.unbind(2), values.unbind(2), strict=True)):
        now = {gate.label: gates[gate.label][:, :, i if gate.each_write else i // count] for gate in rule.gates}
        if count > 1 and i % count:  # what a step does once, it does before its first write
            now = {**now, "alpha": torch.ones_like(now["beta"])}
        weights = step(weights, k, v, now, normaliser)
        if normaliser is not None:
            normaliser = decay_of(rule, k, now) * normaliser + k  # Eqs. 18, 26
        if i % count < count - 1:
            continue
        q = queries[:, :, i // count]
        read, divisors = matvec(weights, q), []
        if isinstance(rule, FastWeightMemoryRule) and rule.layer_norm:
            read = read - read.mean(-1, keepdim=True)
            divisors.append((read.square().mean(-1) + 1e-5).sqrt())
        if normaliser is not None and attention is not None:
            divisors.append(dot(normaliser, q))  # Eqs. 19, 28
        if _reads_are_sums_of_sizes:
            read = matvec(weights.abs(), q.abs())
        for divisor in divisors:
            read = divide_or_zero(read, divisor)
        reads.append(read[:, :, None])
    return torch.cat(reads, dim=2), weights, normaliser


def decay_of(rule: UpdateRule, k: Tensor, gates: Mapping[str, Tensor]) -> Tensor | float:
    """g for every component of z, which forgets what W forgets."""
    match rule:
        case SumRule() | DeltaRule() | NormalisedDeltaRule() | FastWeightMemoryRule() | ProgrammerRule():
            return 1.0
        case GatedDeltaRule() | DeltaProductRule(gated=True):
            return gates["alpha"][..., None]
        case KimiDeltaRule() | GatedDeltaRule2():
            return gates["alpha"]
        case DecayedSumRule(decay=Mamba2Decay()):
            return gates["decay"][..., 0, None]
        case DecayedSumRule():
            return gates["decay"] if rule.decay.per == "key" else gates["decay"][..., None]
        case LinearRule():
            sequence = {name: gate[:, :, None] for name, gate in gates.items()}
            decay = rule.coefficients(k[:, :, None], sequence, k[:, :, None, 0]).decay
            return 1.0 if decay is None else decay[:, :, 0] if decay.dim() == 4 else decay
        case _:
            return 1.0


def linear_recurrence(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor,
    decay: Tensor | None = None,
    lookups: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """W_t = W_{t-1} diag(g_t) (I - a_t e_t k_tᵀ) + b_t v_t k_tᵀ,   y_t = W_t q_t, with both matrices spelled out."""
    reads = [values[:, :, :0]]
    identity = torch.eye(keys.shape[-1], dtype=keys.dtype)
    for t in range(keys.shape[2]):
        k, v, a, b = keys[:, :, t], values[:, :, t], erase[:, :, t, None, None], write[:, :, t, None, None]
        e = k if lookups is None else lookups[:, :, t]
        if decay is not None:
            g = decay[:, :, t, None].expand(k.shape) if decay.dim() == 3 else decay[:, :, t]
            weights = weights @ torch.diag_embed(g)
        weights = weights @ (identity - a * outer(e, k))
        weights = weights + b * outer(v, k)
        reads.append(matvec(weights, queries[:, :, t])[:, :, None])
    return torch.cat(reads, dim=2), weights


def step_of(rule: UpdateRule, divides_retrieval: bool = False) -> Step:
    """One write by the equations of the rule."""
    match rule:
        case SumRule():
            return lambda weights, k, v, gates, z: weights + outer(v, k)  # Eqs. 10, 17
        case DeltaRule():
            return normalised_delta_step if divides_retrieval else delta_step
        case NormalisedDeltaRule():
            return normalised_delta_step
        case NormalisedStep():
            return lambda weights, k, v, gates, z: normalised_step(rule, weights, k, v, gates["beta"])
        case FastWeightMemoryRule():
            return clamped_step
        case GatedDeltaRule() | KimiDeltaRule() | GatedDeltaRule2() | DecayedSumRule() | DeltaProductRule():
            return lambda weights, k, v, gates, z: gated_step(rule, weights, k, v, gates)
        case ProgrammerRule():
            sigma = {"identity": lambda x: x, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu}
            return lambda weights, k, v, gates, z: sigma[rule.activation](weights + outer(v, k))  # Eq. 2
        case _:
            return (rule.with_attention_normalisation() if divides_retrieval else rule).step


def delta_step(weights: Tensor, k: Tensor, v: Tensor, gates: Gates, z: Tensor | None) -> Tensor:
    """Eqs. 20, 22 and 23: write the interpolated value, remove the old one."""
    return _write_and_remove(weights, k, v, gates["beta"], retrieved=matvec(weights, k))


def normalised_delta_step(weights: Tensor, k: Tensor, v: Tensor, gates: Gates, z: Tensor | None) -> Tensor:
    """Eqs. 27, 22 and 23, with v̄ = 0 where z·k = 0."""
    assert z is not None
    return _write_and_remove(weights, k, v, gates["beta"], retrieved=divide_or_zero(matvec(weights, k), dot(z, k)))


def normalised_step(rule: NormalisedStep, weights: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """Eqs. 20, 22 and 23 with both outer products divided by k·k + ε, as normalised least mean squares does."""
    step = (beta / (dot(k, k) + rule.epsilon))[..., None, None]
    return weights + step * outer(v, k) - step * outer(matvec(weights, k), k)


def gated_step(rule: UpdateRule, weights: Tensor, k: Tensor, v: Tensor, gates: Mapping[str, Tensor]) -> Tensor:
    """The equations of the successors, with every matrix spelled out: what W is multiplied by, and what is added."""
    identity = torch.eye(k.shape[-1], dtype=k.dtype)
    match rule:
        case GatedDeltaRule() | DeltaProductRule():
            beta = gates["beta"][..., None, None]
            alpha = gates["alpha"][..., None, None] if "alpha" in gates else 1.0
            return weights @ (alpha * (identity - beta * outer(k, k))) + beta * outer(v, k)
        case KimiDeltaRule():
            beta = gates["beta"][..., None, None]
            return weights @ torch.diag_embed(gates["alpha"]) @ (identity - beta * outer(k, k)) + beta * outer(v, k)
        case GatedDeltaRule2():
            erased = identity - outer(gates["erase"] * k, k)
            return weights @ torch.diag_embed(gates["alpha"]) @ erased + outer(gates["write"] * v, k)
        case DecayedSumRule(decay=Mamba2Decay()):
            decay, step = gates["decay"].unbind(-1)
            return decay[..., None, None] * weights + step[..., None, None] * outer(v, k)
        case DecayedSumRule():
            decay = gates["decay"]
            kept = decay[..., None, :] if rule.decay.per == "key" else decay[..., None, None]
            return weights * kept + outer(v, k)
        case _:
            raise ValueError(f"no equation for {rule}")


def clamped_step(weights: Tensor, k: Tensor, v: Tensor, gates: Gates, z: Tensor | None) -> Tensor:
    """The delta rule, then W divided by its Frobenius norm where that exceeds 1 (Schlag et al., 2021)."""
    weights = delta_step(weights, k, v, gates, z)
    # The square root of an empty memory has no gradient, and none is needed: the divisor is at least 1.
    norm = weights.square().sum((-2, -1)).clamp(min=1).sqrt()
    return divide_or_zero(weights, norm[..., None])


def _write_and_remove(weights: Tensor, k: Tensor, v: Tensor, beta: Tensor, retrieved: Tensor) -> Tensor:
    new = beta[..., None] * v + (1 - beta[..., None]) * retrieved
    return weights + outer(new, k) - outer(retrieved, k)


def features(feature_map: FeatureMap, x: Tensor, projection: Tensor | None = None) -> Tensor:
    """φ(x) (Sec. 5)."""
    match feature_map:
        case Identity():
            return x
        case Tanh():
            return x.tanh()
        case Relu():
            return torch.where(x > 0, x, 0.0)
        case SiLU():
            return x / (1 + (-x).exp())
        case SoftmaxFeatures():
            return divide_or_zero(x.exp(), x.exp().sum(-1))
        case EluPlusOne():
            return torch.where(x > 0, x + 1, x.exp())  # Eq. 30
        case Favor():
            assert projection is not None
            return favor(feature_map, x, projection)
        case DPFP():
            r = [torch.where(y > 0, y, 0.0) for y in (*x.unbind(-1), *(-x).unbind(-1))]
            shifts = range(1, feature_map.nu + 1)
            return torch.stack([r[i] * r[i - j] for j in shifts for i in range(len(r))], dim=-1)  # Eq. 37
        case _:
            return feature_map(x)


def favor(feature_map: Favor, x: Tensor, projection: Tensor) -> Tensor:
    """Eqs. 31 and 32, or their rectified form; the stabilised form is that of x / d^¼."""
    if feature_map.stabilised:
        x = x / x.shape[-1] ** 0.25
    rx = x @ projection.to(x.dtype).T
    both, m = torch.cat([rx, -rx], dim=-1), projection.shape[0]
    if feature_map.kind == "relu":
        return torch.where(both > 0, both, 0.0) / math.sqrt(m)
    h = (-x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(2)
    return h / math.sqrt(m) * both.exp()


def normalised(normalisation: Normalisation, phi: Tensor) -> Tensor:
    """φ' (Eq. 29 and its kin); features that are all zero stay zero."""
    match normalisation:
        case NoNormalisation():
            return phi
        case SumNormalisation():
            return divide_or_zero(phi, phi.abs().sum(-1))
        case L2Normalisation():
            # The square root has no gradient at zero: there, take that of one.
            squares = phi.square().sum(-1)
            return divide_or_zero(phi, torch.where(squares == 0, 1.0, squares).sqrt())
        case CentredL2():
            centred = phi - phi.sum(-1, keepdim=True) / phi.shape[-1]
            squares = centred.square().sum(-1)
            return divide_or_zero(centred, torch.where(squares == 0, 1.0, squares).sqrt())
        case _:
            return normalisation(phi)


def matvec(weights: Tensor, x: Tensor) -> Tensor:
    return (weights * x[..., None, :]).sum(-1)


def outer(x: Tensor, y: Tensor) -> Tensor:
    return x[..., :, None] * y[..., None, :]


def dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1)


def divide_or_zero(x: Tensor, divisor: Tensor) -> Tensor:
    """x / divisor, and zero where the divisor is: what overlaps with nothing retrieves nothing."""
    divisor = divisor.detach() if _divisors_are_constant else divisor
    nothing = (divisor == 0)[..., None]
    return torch.where(nothing, 0.0, x / torch.where(nothing, 1.0, divisor[..., None]))
