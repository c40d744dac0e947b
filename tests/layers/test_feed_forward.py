"""The feed-forward layer against its formula."""

import torch
from torch.testing import assert_close

from fastweights.layers import FeedForward


def test_feed_forward_is_its_formula() -> None:
    layer, x = FeedForward(4, 6), torch.randn(3, 4)
    first, second = layer.layers[0], layer.layers[3]
    hidden = (x @ first.weight.T + first.bias).clamp(min=0)
    assert_close(layer(x[None])[0], hidden @ second.weight.T + second.bias)
