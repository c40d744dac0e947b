"""The translator: teacher forcing equals step by step, padding changes nothing, the loss, the three attentions."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights.data.translation_tokeniser import START
from fastweights.memory import LayerState
from fastweights.models.attention import RelativeAttentionConfig
from fastweights.models.translator import Translator, TranslatorConfig
from translators import SMALL, TRANSLATORS, translator

EXACT = {"rtol": 1e-9, "atol": 1e-11}


@pytest.fixture
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def example(batch: int = 2) -> tuple[Tensor, Tensor]:
    return torch.randint(3, 40, (batch, 7)), torch.randint(3, 40, (batch, 6))


def scattered(tokens: Tensor, real: list[int], width: int) -> tuple[Tensor, Tensor]:
    """Tokens at some places of longer rows, something else at the others, and the mask."""
    rows, mask = torch.randint(3, 40, (len(tokens), width)), torch.zeros(len(tokens), width, dtype=torch.bool)
    rows[:, real], mask[:, real] = tokens, True
    return rows, mask


@pytest.mark.usefixtures("_without_gradients")
@pytest.mark.parametrize("name", TRANSLATORS)
class TestEveryAttention:
    def test_teacher_forcing_equals_step_by_step(self, name: str) -> None:
        model = translator(name, torch.float64)
        source, inputs = example()
        expected = model(source, inputs)
        memories = model.write(model.encode(source))
        whole, _ = model.decode(inputs, memories)
        assert_close(whole, expected, **EXACT)
        states: list[LayerState] | None = None
        for step in range(inputs.shape[1]):
            hidden, states = model.decode(inputs[:, step : step + 1], memories, states)
            assert_close(hidden[:, 0], expected[:, step], **EXACT)

    @pytest.mark.parametrize("real", [range(7), range(4, 11), [0, 2, 3, 5, 8, 9, 10]])
    def test_padding_of_the_source_changes_nothing(self, name: str, real: list[int]) -> None:
        model = translator(name, torch.float64)
        source, inputs = example()
        padded, mask = scattered(source, list(real), 11)
        assert_close(model(padded, inputs, mask), model(source, inputs), **EXACT)
        memories = model.write(model.encode(padded, mask), mask)
        assert_close(model.decode(inputs, memories)[0], model(source, inputs), **EXACT)

    def test_padding_of_the_target_changes_nothing(self, name: str) -> None:
        model = translator(name, torch.float64)
        source, inputs = example()
        real = [0, 1, 4, 5, 6, 8]
        padded, mask = scattered(inputs, real, 10)
        memories = model.write(model.encode(source))
        hidden, states = model.decode(padded, memories, mask=mask)
        assert_close(hidden[:, real], model(source, inputs), **EXACT)
        expected = model.decode(inputs[:, :1], memories, model.decode(inputs, memories)[1])[0]
        assert_close(model.decode(inputs[:, :1], memories, states)[0], expected, **EXACT)

    def test_the_future_does_not_change_the_past(self, name: str) -> None:
        model = translator(name, torch.float64)
        source, inputs = example()
        changed = inputs.clone()
        changed[:, 4:] = 3
        assert torch.equal(model(source, changed)[:, :4], model(source, inputs)[:, :4])
        assert not torch.allclose(model(source, changed)[:, 4:], model(source, inputs)[:, 4:])

    def test_every_word_of_the_source_matters(self, name: str) -> None:
        model = translator(name)
        source, inputs = example()
        expected = model(source, inputs)
        for place in range(source.shape[1]):
            changed = source.clone()
            changed[:, place] = (changed[:, place] + 1) % 40
            assert not torch.allclose(model(changed, inputs), expected, rtol=1e-3)

    def test_rows_that_share_a_source_share_its_memory(self, name: str) -> None:
        model = translator(name, torch.float64)
        source, _ = example()
        inputs = torch.randint(3, 40, (6, 5))
        memories = model.write(model.encode(source))
        assert all(memory.steps.shape[0] == 2 for memory in memories)
        expected = model(source.repeat_interleave(3, dim=0), inputs)
        hidden, states = model.decode(inputs[:, :3], memories)
        assert_close(hidden, expected[:, :3], **EXACT)
        for step in (3, 4):
            hidden, states = model.decode(inputs[:, step : step + 1], memories, states)
            assert_close(hidden[:, 0], expected[:, step], **EXACT)

    def test_a_source_may_be_written_in_pieces(self, name: str) -> None:
        model = translator(name, torch.float64)
        source, inputs = example()
        encoded = model.encode(source)
        pieces = model.write(encoded[:, 3:], memories=model.write(encoded[:, :3]))
        assert_close(model.decode(inputs, pieces)[0], model(source, inputs), **EXACT)

    def test_the_configuration_survives_plain_data(self, name: str) -> None:
        config = TRANSLATORS[name]
        assert TranslatorConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize("name", TRANSLATORS)
def test_gradients_of_padded_batches_are_those_of_the_sentences_alone(name: str) -> None:
    model = translator(name, torch.float64)
    sources, targets = [torch.randint(3, 40, (1, n)) for n in (7, 3)], [torch.randint(3, 40, (1, n)) for n in (4, 6)]
    source, labels = torch.zeros(2, 7, dtype=torch.int64), torch.full((2, 6), -100)
    inputs = torch.zeros(2, 6, dtype=torch.int64)
    alone = torch.zeros(())
    for row, (x, y) in enumerate(zip(sources, targets, strict=True)):
        shifted = torch.cat([torch.tensor([[START]]), y[:, :-1]], dim=1)
        source[row, : x.shape[1]], labels[row, : y.shape[1]], inputs[row, : y.shape[1]] = x, y, shifted
        alone = alone + model.losses(model(x, shifted), y, 0.1).sum()
    together = model.losses(model(source, inputs, source != 0), labels, 0.1)
    assert together.shape == (10,)
    assert_close(together.sum(), alone, **EXACT)
    expected = torch.autograd.grad(alone, list(model.parameters()))
    for found, wanted in zip(torch.autograd.grad(together.sum(), list(model.parameters())), expected, strict=True):
        assert_close(found, wanted, rtol=1e-8, atol=1e-10)


def test_the_three_places_have_the_attention_that_is_named() -> None:
    model = translator("mixed")
    block = model.decoder[0]
    assert "SumRule" in str(model.encoder[0].attention.update_rule)
    assert "DeltaRule" in str(block.self_attention.update_rule)
    assert type(block.cross_attention).__name__ == "SoftmaxCrossAttention"


@pytest.mark.parametrize("place", ["encoder_attention", "cross_attention"])
def test_relative_attention_is_for_the_decoder_only(place: str) -> None:
    with pytest.raises(ValueError, match="relative attention looks back"):
        Translator(replace(SMALL, **{place: RelativeAttentionConfig()}))


def test_initial_scales() -> None:
    """Keys and queries of unit inputs have variance ½, values too, outputs 1; embeddings times √D have variance 1."""
    torch.manual_seed(0)
    model = Translator(TranslatorConfig(vocabulary_size=1000, model_dim=128))
    x = torch.randn(500, 128)
    block = model.decoder[0]
    for layer, variance in (
        (model.encoder[0].attention.projection, 0.5),
        (block.cross_attention.source_projection, 0.5),
        (block.cross_attention.query_projection, 0.5),
        (block.self_attention.output, 1.0),
    ):
        assert layer(x).var().item() == pytest.approx(variance, rel=0.05)
    assert model.embedding(torch.arange(1, 1000)[None]).var().item() == pytest.approx(1, rel=0.05)
    assert not model.embedding(torch.tensor([[0]])).any()


def test_wrong_numbers_of_states_are_named() -> None:
    model = translator("linear")
    source, inputs = example()
    memories = model.write(model.encode(source))
    with pytest.raises(ValueError, match="memories: expected one for each of the 2 layers, got 1"):
        model.decode(inputs, memories[:1])
    with pytest.raises(ValueError, match="states: expected one for each of the 2 layers, got 3"):
        model.decode(inputs, memories, [*memories, memories[0]])


@pytest.mark.parametrize(
    "change",
    [
        *({"num_heads": 0}, {"encoder_layers": 0}, {"dropout": 1.0}, {"dropout": math.nan}),
        *({"encoder_layers": 100_000_000}, {"decoder_layers": 100_000_000}),
    ],
)
def test_what_cannot_be(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        replace(SMALL, **change)
