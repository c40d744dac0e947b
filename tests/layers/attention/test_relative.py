"""Transformer-XL's attention against its formula spelled out, and its memory against one long pass."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights.layers.attention import relative
from fastweights.layers.attention.relative import RelativeAttention


def example(memory_length: int) -> tuple[RelativeAttention, Tensor]:
    torch.manual_seed(0)
    layer = RelativeAttention(8, 2, memory_length=memory_length).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer, torch.randn(2, 11, 8, dtype=torch.float64)


def spelled_out(layer: RelativeAttention, x: Tensor, first_visible: list[int]) -> Tensor:
    """Step i attends to steps first_visible[i] … i."""
    q, k, v = (part.view(2, -1, 2, 4) for part in layer.projection(x).chunk(3, dim=-1))
    frequencies = torch.tensor([10_000 ** (-2 * j / 8) for j in range(4)], dtype=torch.float64)
    reads = []
    for i in range(x.shape[1]):
        scores = []
        for j in range(first_visible[i], i + 1):
            angle = (i - j) * frequencies
            r = layer.distance_projection(torch.cat([angle.sin(), angle.cos()])).view(2, 4)
            content = ((q[:, i] + layer.content_bias[:, 0]) * k[:, j]).sum(-1)
            distance = ((q[:, i] + layer.distance_bias[:, 0]) * r).sum(-1)
            scores.append((content + distance) / math.sqrt(4))
        weights = torch.stack(scores, dim=1).softmax(dim=1)
        reads.append((weights[..., None] * v[:, first_visible[i] : i + 1]).sum(dim=1).flatten(1))
    return layer.output(torch.stack(reads, dim=1))


def test_matches_the_formula() -> None:
    layer, x = example(memory_length=0)
    assert_close(layer(x)[0], spelled_out(layer, x, [0] * 11), rtol=1e-12, atol=1e-13)


def test_bfloat16_tells_far_distances_apart() -> None:
    """With queries and keys of zero, only distances decide: their sines and cosines are rounded, never the angles."""
    layer, x = example(memory_length=0)
    layer, x = layer.float(), torch.randn(1, 700, 8)
    with torch.no_grad():
        layer.projection.weight[:16] = 0
        layer.distance_bias *= 20
    expected = layer(x)[0]
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)[0].float()
    assert (found - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize("memory_length", [0, 3, 100])
def test_a_segment_sees_the_memory_and_itself(memory_length: int) -> None:
    layer, x = example(memory_length)
    first, state = layer(x[:, :6])
    second, state = layer(x[:, 6:], state)
    visible = [0] * 6 + [max(0, 6 - memory_length)] * 5
    assert_close(torch.cat([first, second], dim=1), spelled_out(layer, x, visible), rtol=1e-12, atol=1e-13)
    assert state.hidden.shape[1] == min(memory_length, 11)
    assert state.steps.tolist() == [11, 11]


@pytest.mark.parametrize("memory_length", [0, 3, 100])
def test_padding_changes_nothing_wherever_it_stands(memory_length: int) -> None:
    """Left, inner and right padding, another one in each row, and a second segment that reads the memory."""
    layer, x = example(memory_length)
    first, state = layer(x[:, :6])
    second, state = layer(x[:, 6:], state)
    places = [
        torch.tensor([[3, 4, 5, 6, 7, 8], [0, 1, 4, 5, 8, 10]]),
        torch.tensor([[0, 1, 2, 3, 4], [1, 3, 4, 6, 7]]),
    ]
    padded_state = None
    for part, place, expected in zip((x[:, :6], x[:, 6:]), places, (first, second), strict=True):
        padded = torch.full((2, 11, 8), math.nan, dtype=torch.float64)
        padded.scatter_(1, place[..., None].expand(-1, -1, 8), part)
        mask = torch.zeros(2, 11, dtype=torch.bool).scatter_(1, place, True)
        reads, padded_state = layer(padded, padded_state, mask)
        found = reads.gather(1, place[..., None].expand(-1, -1, 8))
        assert_close(found, expected, rtol=1e-12, atol=1e-13)
    assert padded_state is not None
    assert padded_state.steps.tolist() == [11, 11]
    kept = min(memory_length, 11)
    assert_close(padded_state.hidden[:, padded_state.hidden.shape[1] - kept :], state.hidden)


def test_gradient_stops_at_a_detached_memory() -> None:
    layer, x = example(memory_length=100)
    x.requires_grad_()
    _, state = layer(x[:, :6])
    layer(x[:, 6:], state.detach())[0].sum().backward()
    assert x.grad is not None
    assert x.grad[:, :6].abs().sum() == 0
    assert x.grad[:, 6:].abs().sum() > 0


@pytest.mark.parametrize("group_bytes", [0, 2 * (2 * 5 * 11 * 8)])
@pytest.mark.parametrize("padded", [False, True])
def test_groups_of_sequences_read_what_all_of_them_read(
    group_bytes: int, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one and two by two: the same outputs, memory and gradients as in one group."""
    layer, _ = example(memory_length=100)
    x = torch.randn(5, 11, 8, dtype=torch.float64)
    mask = torch.rand(5, 11) < 0.7 if padded else None

    def results() -> list[Tensor]:
        inputs, sizes = x.clone().requires_grad_(), []
        monkeypatch.setattr(layer, "_read", lambda *args, **kwargs: sizes.append(len(args[0])) or read(*args, **kwargs))
        _, state = layer(inputs[:, :6], None, None if mask is None else mask[:, :6])
        y, state = layer(inputs[:, 6:], state, None if mask is None else mask[:, 6:])
        groups.append(sizes[-3:])
        loss = (y * torch.arange(y.numel(), dtype=y.dtype).view_as(y).cos()).sum()
        return [y, state.hidden, *torch.autograd.grad(loss, [inputs, *layer.parameters()])]

    read, groups = layer._read, []
    expected = results()
    monkeypatch.setattr(relative, "GROUP_BYTES", group_bytes)
    assert_close(results(), expected, rtol=1e-12, atol=1e-13)
    assert groups == [[5, 5], [2, 2, 1] if group_bytes else [1, 1, 1]]


def test_one_mask_drops_for_all_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = example(memory_length=0)
    layer.dropout.p = 0.5
    monkeypatch.setattr(relative, "GROUP_BYTES", 0)
    torch.manual_seed(1)
    found = layer(x)[0]
    monkeypatch.setattr(relative, "GROUP_BYTES", 1 << 22)
    torch.manual_seed(1)
    assert torch.equal(layer(x)[0], found)


@pytest.mark.parametrize(("batch", "steps"), [(0, 3), (2, 0)])
def test_nothing_in_nothing_out(batch: int, steps: int) -> None:
    layer, _ = example(memory_length=4)
    y, state = layer(torch.zeros(batch, steps, 8, dtype=torch.float64))
    assert y.shape == (batch, steps, 8)
    assert state.hidden.shape == (batch, min(steps, 4), 8)
