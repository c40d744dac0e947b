"""In the place of nn.MultiheadAttention: the same call, the same masks, the layers of torch around it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
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


def encoder_layer() -> tuple[nn.TransformerEncoderLayer, Tensor, Tensor, Tensor]:
    """A causal layer of torch with a memory in it, inputs, the causal mask and padding in its float form."""
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
    layer.self_attn = MultiheadFastWeights(16, 2, batch_first=True, causal=True)
    padding = torch.zeros(2, 6)
    padding[1, 4:] = -torch.inf
    return layer, torch.randn(2, 6, 16), nn.Transformer.generate_square_subsequent_mask(6), padding


@pytest.mark.usefixtures("without_shape_checks")
def test_exported_with_masks_it_gives_the_same() -> None:
    layer, x, mask, padding = encoder_layer()
    given = {"src_mask": mask, "src_key_padding_mask": padding, "is_causal": True}
    with torch.no_grad():
        program = torch.export.export(layer, (x,), given).module()
        for inputs in (x, x.flip(0)):
            assert_close(program(inputs, **given), layer(inputs, **given))


def test_compiled_with_masks_into_one_graph_it_gives_the_same() -> None:
    """In a process of its own: the shape checks of the tests are more than torch.compile can trace."""
    program = Path(__file__).with_name("compiled_multihead.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 1e-6


def test_on_the_meta_device_masks_have_no_values_to_check() -> None:
    layer, *given = encoder_layer()
    x, mask, padding = (tensor.to("meta") for tensor in given)
    y = layer.to("meta")(x, src_mask=mask, src_key_padding_mask=padding, is_causal=True)
    assert y.shape == x.shape
    assert y.device.type == "meta"


def test_padding_in_floats_is_zero_or_minus_infinity() -> None:
    layer, x = MultiheadFastWeights(12, 3, batch_first=True), torch.randn(2, 7, 12)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 5:] = True
    added = torch.zeros(2, 7).masked_fill(padding, -torch.inf)
    assert torch.equal(layer(x, x, x, key_padding_mask=added)[0], layer(x, x, x, key_padding_mask=padding)[0])
    for wrong in (torch.ones(2, 7), padding.float(), added.clamp(min=-1e9), torch.full((2, 7), torch.nan)):
        with pytest.raises(ValueError, match=r"key_padding_mask: .*0 for real steps and -inf .*or a bool tensor"):
            layer(x, x, x, key_padding_mask=wrong)


def test_many_paddings_in_floats_at_once() -> None:
    layer, x = MultiheadFastWeights(12, 3, batch_first=True), torch.randn(2, 7, 12)
    paddings = torch.zeros(3, 2, 7)
    paddings[1, 1, 5:] = paddings[2, 0, 3:] = -torch.inf
    found = torch.func.vmap(lambda padding: layer(x, x, x, key_padding_mask=padding)[0])(paddings)
    assert_close(found, torch.stack([layer(x, x, x, key_padding_mask=padding)[0] for padding in paddings]))
