"""A training step of a language model compiled for a GPU that is not here: run by test_device.py in its own process.

Tensors of torch's meta device stand for a GPU's. Prints the kernels of every graph that is made for some lengths.
"""

import json

import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd

from fastweights.kernels.triton import availability
from fastweights.models.language_model import LanguageModel, LanguageModelConfig


def main() -> None:
    availability.unavailable = lambda: None
    availability.wrong_device = lambda device: None
    graphs: list[list[str]] = []

    def record(graph: torch.fx.GraphModule, inputs: object) -> object:
        calls = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        graphs.append([name for name in calls if name.startswith("fastweights")])
        return make_boxed_func(graph.forward)

    sizes = {"model_dim": 16, "num_heads": 2, "num_layers": 2, "feed_forward_dim": 32}
    with torch.device("meta"):
        model = LanguageModel(LanguageModelConfig(50, **sizes))

    def loss(tokens: Tensor) -> Tensor:
        return model.losses(model(tokens[:, :-1])[0], tokens[:, 1:]).mean()

    compiled = torch.compile(loss, backend=aot_autograd(fw_compiler=record, bw_compiler=record), fullgraph=True)
    found = []
    for length in (17, 40, 60):
        graphs.clear()
        compiled(torch.zeros(3, length, dtype=torch.int64, device="meta")).backward()
        found.append(list(graphs))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
