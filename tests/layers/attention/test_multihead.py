"""In the place of nn.MultiheadAttention: the same call, the same masks, the layers of torch around it."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from fastweights.layers import MultiheadFastWeights
from fastweights.update_rules import SumRule


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_the_layer_inside(batch_first: bool, causal: bool) -> None:
    layer, x = MultiheadFastWeights(12, 3, batch_first=batch_first, causal=causal), torch.randn(2, 7, 12)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 5:] = True
    given = x if batch_first else x.transpose(0, 1)
    y, weights = layer(given, given, given, key_padding_mask=padding, need_weights=False, is_causal=causal)
    assert weights is None
    expected = layer.memory(x, mask=~padding)[0]
    assert_close((y if batch_first else y.transpose(0, 1))[~padding], expected[~padding])
    # Padding has no effect on what is real.
    shorter = x[1:, :5] if batch_first else x[1:, :5].transpose(0, 1)
    alone, _ = layer(shorter, shorter, shorter, is_causal=causal)
    assert_close((y if batch_first else y.transpose(0, 1))[1, :5], (alone if batch_first else alone.transpose(0, 1))[0])


def test_a_source_is_read_by_another_sequence() -> None:
    layer = MultiheadFastWeights(12, 3, batch_first=True, cross=True, update_rule=SumRule())
    x, source = torch.randn(2, 4, 12), torch.randn(2, 9, 12)
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[0, 6:] = True
    y, _ = layer(x, source, source, key_padding_mask=padding)
    state = layer.memory.write(source, mask=~padding)
    assert_close(y, layer.memory(x, state)[0])


@pytest.mark.parametrize("training", [False, True])
def test_in_a_transformer_of_torch(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=True)
    layer.self_attn = MultiheadFastWeights(12, 3, batch_first=True, causal=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training)
    x, padding = torch.randn(2, 7, 12), torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 5:] = True
    mask = nn.Transformer.generate_square_subsequent_mask(7)
    y = model(x, mask=mask, src_key_padding_mask=padding.float().masked_fill(padding, -torch.inf), is_causal=True)
    changed = x.clone()
    changed[:, 4:] = 0
    y2 = model(changed, mask=mask, src_key_padding_mask=padding.float().masked_fill(padding, -torch.inf))
    assert_close(y[:, :4], y2[:, :4])
    y.square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize(
    ("options", "call", "message"),
    [
        ({}, {"need_weights": True}, "keeps no attention weights; possible: need_weights=False"),
        ({}, {"is_causal": True}, "only a causal mask has an effect, in a layer with causal=True"),
        ({"causal": True}, {}, "this layer is causal"),
        ({"causal": True}, {"attn_mask": torch.zeros(7, 7)}, "only a causal mask has an effect"),
        ({"cross": True}, {}, "expected key and value the same source; possible: cross=False"),
    ],
)
def test_what_would_have_no_effect_is_refused(options: dict, call: dict, message: str) -> None:
    x = torch.randn(2, 7, 12)
    with pytest.raises(ValueError, match=message):
        MultiheadFastWeights(12, 3, batch_first=True, **options)(x, x, x, **call)


def test_another_sequence_needs_a_layer_for_it() -> None:
    x = torch.randn(2, 7, 12)
    with pytest.raises(ValueError, match="query, key and value the same sequence; possible: cross=True"):
        MultiheadFastWeights(12, 3, batch_first=True)(x, x.clone(), x.clone())
    with pytest.raises(ValueError, match="cross-attention cannot be causal"):
        MultiheadFastWeights(12, 3, causal=True, cross=True)
