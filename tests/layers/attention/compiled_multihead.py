"""A layer of torch with fast weights in it, compiled and not, compared: run by test_multihead.py in its own process."""

import torch
from torch import nn

from fastweights.layers import MultiheadFastWeights


def main() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
    layer.self_attn = MultiheadFastWeights(16, 2, batch_first=True, causal=True)
    padding = torch.zeros(2, 6)
    padding[1, 4:] = -torch.inf
    x, mask = torch.randn(2, 6, 16), nn.Transformer.generate_square_subsequent_mask(6)
    given = {"src_mask": mask, "src_key_padding_mask": padding, "is_causal": True}
    # What is traced is run as it is: the default compiler would also need a C++ compiler where the tests run.
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    expected = layer(x, **given)
    print(((compiled(x, **given) - expected).norm() / expected.norm()).item())


if __name__ == "__main__":
    main()
