"""A layer compiled and not, compared: run by test_torch_tools.py in a process of its own.

There shapes are not checked while the code runs; the checks' wrappers are more than torch.compile can trace.
"""

import sys

import torch
from torch import Tensor

from fastweights import DPFP, FastWeightAttention


def loss_and_gradients(layer: torch.nn.Module, x: Tensor) -> list[Tensor]:
    y, state = layer(x)
    loss = y.square().sum() + state.weights.square().sum()
    return [loss.detach(), *torch.autograd.grad(loss, list(layer.parameters()))]


def main(compiler: str, backend: str) -> None:
    torch.manual_seed(0)
    layer, x = FastWeightAttention(16, 2, feature_map=DPFP(nu=2), backend=backend), torch.randn(2, 70, 16)
    compiled = torch.compile(layer, backend=compiler, fullgraph=True)
    pairs = zip(loss_and_gradients(compiled, x), loss_and_gradients(layer, x), strict=True)
    print(max(((x - y).norm() / y.norm()).item() for x, y in pairs))


if __name__ == "__main__":
    main(*sys.argv[1:])
