"""Which of torch's function transforms a call is under: the compiled kernels have no rules for most of them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

import torch
from torch import Tensor
from torch._C._functorch import (
    TransformType,
    get_interpreter_stack,
    is_legacy_batchedtensor,
    peek_interpreter_stack,
)
from torch.autograd import forward_ad

Transform = Literal["none", "vmap", "derivative"]

STEP_BY_STEP = "possible: backend='recurrent', or torch.func where a function takes no backend"
"""The two ways to the backend that has every derivative, for messages of those that do not."""


def active_transform() -> Transform:
    """`derivative` inside torch.func's grad, jvp, jacrev and forward-mode AD, else `vmap` inside vmap, else `none`."""
    if torch.compiler.is_compiling():
        return "none"
    if forward_ad._current_level >= 0:
        return "derivative"
    if peek_interpreter_stack() is None:
        return "none"
    only_vmap = all(level.key() == TransformType.Vmap for level in get_interpreter_stack() or ())
    return "vmap" if only_vmap else "derivative"


def differentiated_again(*gradients: Tensor | None) -> bool:
    """In a backward pass: whether its results are differentiated again, or computed for many gradients at once.

    A formula written by hand has no derivative that autograd knows, and would lose it without a word.
    """
    return not torch.compiler.is_compiling() and (torch.is_grad_enabled() or batched(*gradients))


def batched(*gradients: Tensor | None) -> bool:
    """Whether vmap or `is_grads_batched` hands over many gradients as one."""
    many = any(x is not None and is_legacy_batchedtensor(x) for x in gradients)
    return many or peek_interpreter_stack() is not None


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse to be differentiated again: torch's own decorator loses a second derivative if the gradient needs none."""

    @wraps(backward)
    def refusing(ctx: Any, *gradients: Tensor) -> Any:
        if differentiated_again(*gradients):
            raise RuntimeError("this read has a backward pass of its own and no second derivative")
        return backward(ctx, *gradients)

    return refusing
