"""Feature maps in one pass, alone or with sum normalisation, by the C++ kernels; only the inputs are kept.

`nu` says which map: DPFP with so many shifts (csrc/dpfp.h), or ELU+1 where it is 0 (csrc/elu.h).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import hardtanh

from fastweights import native_library
from fastweights.native_library import ABSENT, ELEMENT_BYTES, rows, sequence
from fastweights.result_memory import empty, empty_like


def serves(x: Tensor) -> bool:
    """Whether the kernel can map such vectors."""
    return x.device.type == "cpu" and x.dtype in ELEMENT_BYTES and native_library.unavailable() is None


def features(x: Tensor, nu: int, normalise: bool) -> Tensor:
    """φ(x), or φ(x) / Σ_j φ(x)_j; zero where all features vanish."""
    # The kernel takes three dimensions before the last one.
    folded = x if x.dim() == 4 else x.reshape(1, 1, -1, x.shape[-1])
    plain = not (torch.is_grad_enabled() and x.requires_grad) and not native_library.needs_dispatcher((x,))
    result: Tensor = (run_forward if plain else features_forward)(folded, nu, normalise)
    return result if x.dim() == 4 else result.reshape(*x.shape[:-1], result.shape[-1])


def definition(x: Tensor, nu: int, normalise: bool) -> Tensor:
    """The same in PyTorch, differentiable any number of times; normalised only as far as sums do not overflow."""
    mapped = dpfp(x, nu) if nu else elu_plus_one(x)
    if not normalise:
        return mapped
    vanishes = mapped.detach().amax(dim=-1, keepdim=True) <= torch.finfo(x.dtype).tiny ** 0.75
    return mapped / mapped.sum(dim=-1, keepdim=True).masked_fill(vanishes, torch.inf)


def dpfp(x: Tensor, nu: int) -> Tensor:
    """[r ⊙ roll(r, 1), …, r ⊙ roll(r, ν)]  with  r = relu([x, -x])."""
    # Rectified, and bounded so that no product of two finite coordinates overflows.
    r = torch.cat([x, -x], dim=-1)
    r = hardtanh(r, min_val=0.0, max_val=torch.finfo(x.dtype).max ** 0.5)
    return torch.cat([r * r.roll(shift, dims=-1) for shift in range(1, nu + 1)], dim=-1)


def elu_plus_one(x: Tensor) -> Tensor:
    """x + 1 if x > 0, else exp(x)."""
    # elu(x) + 1 would round exp(x) - 1 first, and exp(x) is lost in low precision. Here one term is exact for each
    # sign, exp sees only arguments for which it is finite, and nothing branches, which a CPU is slow at.
    return x.relu() + x.clamp(max=0).exp()


def _call(x: Tensor, nu: int, normalise: bool, mapped: Tensor, gradient: Tensor | None) -> None:
    numbers = (*x.shape, nu, normalise, *sequence(x), *sequence(mapped), *(sequence(gradient) or ABSENT))
    native_library.call(native_library.load().fastweights_features, numbers, x.dtype)


def _new_features(x: Tensor, nu: int) -> Tensor:
    return empty((*x.shape[:-1], 2 * nu * x.shape[-1] if nu else x.shape[-1]), x)


def run_forward(x: Tensor, nu: int, normalise: bool) -> Tensor:
    """φ(x) for x of four dimensions."""
    mapped = _new_features(x, nu)
    _call(rows(x), nu, normalise, mapped, None)
    return mapped


features_forward = torch.library.custom_op("fastweights::features_forward", run_forward, mutates_args=())


@features_forward.register_fake
def _(x: Tensor, nu: int, normalise: bool) -> Tensor:
    return _new_features(x, nu)


@torch.library.custom_op("fastweights::features_backward", mutates_args=())
def features_backward(grad: Tensor, x: Tensor, nu: int, normalise: bool) -> Tensor:
    """The gradient of x."""
    result = empty_like(x)
    _call(rows(x), nu, normalise, rows(grad), result)
    return result


@features_backward.register_fake
def _(grad: Tensor, x: Tensor, nu: int, normalise: bool) -> Tensor:
    return empty_like(x)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.nu, ctx.normalise = inputs
    ctx.save_for_backward(x)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
    (x,) = ctx.saved_tensors
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        # Somebody will differentiate this gradient again.
        return *torch.autograd.grad(definition(x, ctx.nu, ctx.normalise), x, grad, create_graph=True), None, None
    return features_backward(grad, x, ctx.nu, ctx.normalise), None, None


features_forward.register_autograd(_differentiate, setup_context=_save)
