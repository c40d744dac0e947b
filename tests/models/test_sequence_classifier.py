"""The model that answers at every step: its parts by their equations, and that it never sees the future."""

import pytest
import torch
from torch import nn
from torch.nn.functional import silu
from torch.testing import assert_close

from fastweights.experiments.contenders import CONTENDERS
from fastweights.models.sequence_classifier import (
    ConvolvedAttention,
    PictureEmbedding,
    SentenceEmbedding,
    SequenceClassifier,
    SequenceClassifierConfig,
)


@pytest.mark.parametrize("name", CONTENDERS)
@pytest.mark.parametrize("convolution", [None, 3])
def test_the_future_does_not_change_the_past(name: str, convolution: int | None) -> None:
    config = SequenceClassifierConfig(CONTENDERS[name], 16, 2, 2, 24, convolution)
    model = SequenceClassifier(config, nn.Embedding(7, 16), 5).double()
    tokens = torch.randint(7, (3, 19))
    other = torch.cat([tokens[:, :11], torch.randint(7, (3, 8))], dim=1)
    scores = model(tokens)
    assert scores.shape == (3, 19, 5)
    assert_close(model(other)[:, :11], scores[:, :11], rtol=0, atol=1e-12)
    assert (model(other)[:, 11:] != scores[:, 11:]).any()


class Kept(nn.Module):
    """An attention that hands on what it is given."""

    def attend(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return x


def test_what_an_attention_sees_of_a_step_holds_the_steps_before() -> None:
    layer = ConvolvedAttention(Kept(), 4, 3)
    weight = layer.convolution.weight
    assert_close(weight[:, -1], torch.ones(4))
    assert weight[:, :-1].abs().max() < 1
    assert ConvolvedAttention(Kept(), 4, 3, starts_alone=False).convolution.weight.abs().max() < 3**-0.5
    x = torch.randn(2, 5, 4)
    before = torch.cat([torch.zeros(2, 2, 4), x], dim=1)
    expected = silu(sum(weight[:, i] * before[:, i : i + 5] for i in range(3)))  # type: ignore[arg-type]
    assert_close(layer.attend(x), expected)


def test_a_sentence_is_its_words_at_their_places() -> None:
    embedding = SentenceEmbedding(9, 4, 6)
    words = torch.tensor([[[3, 8, 0, 0], [1, 1, 1, 0]]])
    table, places = embedding.words.weight, embedding.places
    first = places[0] * table[3] + places[1] * table[8]
    second = (places[0] + places[1] + places[2]) * table[1]
    assert_close(embedding(words), torch.stack([first, second])[None])
    assert not table[0].any()


def test_a_picture_without_a_label_is_its_pixels() -> None:
    embedding = PictureEmbedding(9, 3, 5, 4)
    pixels, label = torch.rand(9), torch.tensor([0.0, 1.0, 0.0])
    x = torch.stack([torch.cat([pixels, torch.zeros(3)]), torch.cat([pixels, label])])[None]
    without, with_label = embedding(x)[0]
    assert_close(without, embedding.picture(pixels))
    assert_close(with_label - without, embedding.label.weight[:, 1])


@pytest.mark.parametrize("name", ["model_dim", "num_heads", "num_layers", "feed_forward_dim", "convolution"])
def test_sizes_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected at least 1"):
        SequenceClassifierConfig(**{name: 0})


def test_more_layers_than_can_be_built_are_refused() -> None:
    with pytest.raises(ValueError, match="num_layers: expected at most 10000, got 100000000"):
        SequenceClassifierConfig(num_layers=100_000_000)
