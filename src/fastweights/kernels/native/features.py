"""Feature maps of the C++ library (csrc/features/), mapped and normalised in one pass that saves only x."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fastweights.kernels.native import library
from fastweights.kernels.native.buffer_pool import empty, empty_like
from fastweights.kernels.native.library import ELEMENT_BYTES, contiguous_rows, sequence
from fastweights.kernels.transforms import active_transform, differentiated_again


class CompiledMap:
    """A feature map of the library as a pair of custom operators, one for each direction.

    `definition(x, *parameters)` is the same map in PyTorch, differentiable any number of times: second derivatives
    are taken of it. `width(input_dim, *parameters)` is the number of features.
    """

    def __init__(self, name: str, definition: Callable[..., Tensor], width: Callable[..., int]) -> None:
        self.name, self.definition, self.width = name, definition, width
        forward = torch.library.custom_op(f"fastweights::{name}_forward", self._run_forward, mutates_args=())
        backward = torch.library.custom_op(f"fastweights::{name}_backward", self._run_backward, mutates_args=())
        forward.register_fake(lambda x, parameters, normalise: self._new_features(x, parameters))
        backward.register_fake(lambda grad, x, parameters, normalise: empty_like(x))
        forward.register_autograd(self._differentiate, setup_context=_save)
        self._forward, self._backward = forward, backward

    def serves(self, x: Tensor) -> bool:
        """Whether the kernel can map such vectors."""
        fits = x.device.type == "cpu" and x.dtype in ELEMENT_BYTES and library.unavailable() is None
        return fits and active_transform() != "derivative"

    def __call__(self, x: Tensor, parameters: list[int], normalise: int) -> Tensor:
        """φ(x), normalised as `NORMALISE` numbers it; zero where all features vanish."""
        # The kernel takes three dimensions before the last one.
        folded = x if x.dim() == 4 else x.reshape(1, 1, -1, x.shape[-1])
        plain = not (torch.is_grad_enabled() and x.requires_grad) and not library.needs_dispatcher((x,))
        compute = self._run_forward if plain else self._forward
        result: Tensor = compute(folded, parameters, normalise)
        return result if x.dim() == 4 else result.reshape(*x.shape[:-1], result.shape[-1])

    def _run_forward(self, x: Tensor, parameters: list[int], normalise: int) -> Tensor:
        features = self._new_features(x, parameters)
        self._call(contiguous_rows(x), parameters, normalise, features, None)
        return features

    def _run_backward(self, grad: Tensor, x: Tensor, parameters: list[int], normalise: int) -> Tensor:
        result = empty_like(x)
        self.differentiate(grad, x, parameters, normalise, result)
        return result

    def differentiate(self, grad: Tensor, x: Tensor, parameters: list[int], normalise: int, into: Tensor) -> None:
        """Write the gradient of x, given that of φ(x), to a tensor whose last dimension is contiguous."""
        self._call(contiguous_rows(x), parameters, normalise, contiguous_rows(grad), into)

    def _new_features(self, x: Tensor, parameters: list[int]) -> Tensor:
        return empty((*x.shape[:-1], self.width(x.shape[-1], *parameters)), x)

    def _call(
        self, x: Tensor, parameters: list[int], normalise: int, features: Tensor, gradient: Tensor | None
    ) -> None:
        arguments = (*x.shape, normalise, *sequence(x), *sequence(features), *sequence(gradient), *parameters)
        library.call(self.name, arguments, x.dtype)

    def _differentiate(self, ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        if differentiated_again(grad):
            with torch.enable_grad():
                features = self.definition(x, *ctx.parameters)
                features = NORMALISE[ctx.normalise](features)
            return *torch.autograd.grad(features, x, grad, create_graph=torch.is_grad_enabled()), None, None
        return self._backward(grad, x, ctx.parameters, ctx.normalise), None, None


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.parameters, ctx.normalise = inputs
    ctx.save_for_backward(x)


def _divide_by_sum(features: Tensor) -> Tensor:
    return features / features.sum(dim=-1, keepdim=True).masked_fill(_vanish(features), torch.inf)


def _divide_by_length(features: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    return features / length.masked_fill(_vanish(features), torch.inf)


def _centre_and_divide_by_length(features: Tensor) -> Tensor:
    centred = features - features.mean(dim=-1, keepdim=True)
    return centred / torch.linalg.vector_norm(centred, dim=-1, keepdim=True).masked_fill(_vanish(features), torch.inf)


def _vanish(features: Tensor) -> Tensor:
    return features.detach().amax(dim=-1, keepdim=True) <= torch.finfo(features.dtype).tiny ** 0.75


NORMALISE: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda features: features,
    _divide_by_sum,
    _divide_by_length,
    _centre_and_divide_by_length,
)
"""The normalisations of the kernel by their numbers, in PyTorch and without its care for what overflows."""
