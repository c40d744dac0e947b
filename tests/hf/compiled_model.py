"""An accelerated model compiled and not, compared: run by test_acceleration.py in a process of its own.

There shapes are not checked while the code runs; the checks' wrappers are more than torch.compile can trace.
"""

import sys
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).parents[1]))

from fastweights.hf import accelerate
from tiny_models import tiny_model


def main(architecture: str) -> None:
    transformers.logging.set_verbosity_error()
    model, ids = tiny_model(architecture), torch.randint(3, 60, (2, 40))
    with accelerate(model):
        expected = model(ids, use_cache=False).logits
        compiled = torch.compile(lambda ids: model(ids, use_cache=False).logits, backend="aot_eager", fullgraph=True)
        print((compiled(ids) - expected).abs().max().item())


if __name__ == "__main__":
    main(*sys.argv[1:])
