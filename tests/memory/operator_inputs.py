"""Random problems for the operator alone: all of its inputs, and gradients with respect to them."""

import torch
from torch import Tensor

from random_problems import lay_out

NAMES = ("queries", "keys", "values", "erase", "write", "weights", "decay")


def draw(
    seed: int,
    batch: int = 2,
    heads: int = 2,
    steps: int = 67,
    key_dim: int = 8,
    value_dim: int = 5,
    dtype: torch.dtype = torch.float64,
    layout: str = "contiguous",
    channels: bool = False,
    lookups: bool = False,
) -> dict[str, Tensor]:
    """Unit keys with strengths of their own for erasing and writing, 0 < g ≤ 1 and W_0: |1 - a e·k| ≤ 1 throughout.

    With `channels` the decay has one number per component of the keys, some of them exactly zero; with `lookups` e is
    not k.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(batch, heads, *shape, generator=generator, dtype=torch.float64)

    keys = torch.nn.functional.normalize(normal(steps, key_dim), dim=-1)
    uniform = [torch.rand(batch, heads, steps, generator=generator, dtype=torch.float64) for _ in range(3)]
    given = (
        normal(steps, key_dim),
        keys,
        normal(steps, value_dim),
        2 * uniform[0],
        uniform[1],
        normal(value_dim, key_dim),
        1 - 0.3 * uniform[2],
    )
    tensors = dict(zip(NAMES, (lay_out(x.to(dtype), layout) for x in given), strict=True))
    if channels:
        decay = 1 - 0.3 * torch.rand(keys.shape, generator=generator, dtype=torch.float64)
        zero = torch.rand(keys.shape, generator=generator) < 0.1
        tensors["decay"] = lay_out(decay.masked_fill(zero, 0.0).to(dtype), layout)
    if lookups:
        scale = torch.rand(keys.shape, generator=generator, dtype=torch.float64)
        tensors["lookups"] = lay_out((scale * keys).to(dtype), layout)
    tensors["weights"] = tensors["weights"].to(torch.promote_types(dtype, torch.float32))
    return tensors


def leaves(tensors: dict[str, Tensor], dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    return {name: x.detach().to(dtype).requires_grad_() for name, x in tensors.items()}


def differentiate(
    outputs: tuple[Tensor, ...],
    inputs: dict[str, Tensor],
    layout: str = "contiguous",
    precision: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """Gradients of a fixed random combination of reads and weights; an input that is not used has a zero one.

    Its coefficients are numbers of `precision`, so that an oracle in another one differentiates the same combination.
    """
    generator = torch.Generator().manual_seed(1)
    outputs = tuple(x for x in outputs if x.requires_grad)
    drawn = [torch.randn(x.shape, generator=generator).to(precision) for x in outputs]
    directions = [lay_out(x.to(y), layout) for x, y in zip(drawn, outputs, strict=True)]
    found = torch.autograd.grad(outputs, list(inputs.values()), directions, materialize_grads=True)
    return dict(zip(inputs, found, strict=True))
