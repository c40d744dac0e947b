"""A language model compiled and not, compared: run by test_language_model.py in a process of its own.

There shapes are not checked while the code runs; the checks' wrappers are more than torch.compile can trace.
"""

import sys

import torch
from torch import Tensor

from fastweights.models.language_model import LanguageModel, LanguageModelConfig


def main(compiler: str, *cutoffs: str) -> None:
    torch.manual_seed(0)
    config = LanguageModelConfig(
        vocabulary_size=50,
        model_dim=16,
        num_heads=2,
        num_layers=2,
        feed_forward_dim=16,
        cutoffs=tuple(map(int, cutoffs)),
    )
    model, tokens = LanguageModel(config).eval(), torch.randint(0, 50, (2, 9))

    def loss(tokens: Tensor) -> Tensor:
        return model.losses(model(tokens[:, :-1])[0], tokens[:, 1:]).mean()

    def loss_and_gradients(function) -> list[Tensor]:
        value = function(tokens)
        return [value.detach(), *torch.autograd.grad(value, list(model.parameters()), materialize_grads=True)]

    compiled = loss_and_gradients(torch.compile(loss, backend=compiler, fullgraph=True))
    print(max((x - y).norm().item() for x, y in zip(compiled, loss_and_gradients(loss), strict=True)))


if __name__ == "__main__":
    main(*sys.argv[1:])
