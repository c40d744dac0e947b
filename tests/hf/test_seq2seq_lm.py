"""The Hugging Face translator: generation equals our own searches, padding, caches, saving, loading, training."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import AutoModelForSeq2SeqLM, DynamicCache

from fastweights.data.translation_tokeniser import END, PAD, START
from fastweights.hf import FastWeightForSeq2SeqLM, TranslationCache
from fastweights.models.translator import Translator
from own_search import beam_search, greedy
from pairwise import pairs_first
from translators import TRANSLATORS, translator

LONGEST = 8
SOURCES = [[5, 9, 13, 7, 21, 8, END], [30, 6, 6, END], [11, 12, 13, 14, 15, END]]


def example(name: str) -> FastWeightForSeq2SeqLM:
    return FastWeightForSeq2SeqLM.of(translator(name))


def padded(sources: list[list[int]], left: bool = False) -> tuple[Tensor, Tensor]:
    width = max(map(len, sources))
    fill = [[PAD] * (width - len(row)) for row in sources]
    tokens = torch.tensor([pad + row if left else row + pad for row, pad in zip(sources, fill, strict=True)])
    return tokens, (tokens != PAD).long()


def stripped(row: list[int]) -> list[int]:
    return row[: row.index(END) + 1] if END in row else row


def generated(model: FastWeightForSeq2SeqLM, sources: list[list[int]], **options: Any) -> list[list[int]]:
    tokens, mask = padded(sources)
    options = {"num_beams": 1, "do_sample": False, "max_new_tokens": LONGEST, **options}
    return [stripped(row) for row in model.generate(tokens, attention_mask=mask, **options).tolist()]


TELLING = ("softmax", "dpfp2", "performer", "delta-decoder")
"""Each kind of memory once; the others are tested in the slow run."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in TELLING else pytest.mark.slow) for name in TRANSLATORS]
)
class TestEveryAttention:
    def test_greedy_is_our_own(self, name: str) -> None:
        model = example(name)
        assert generated(model, SOURCES) == [greedy(model.model, source, LONGEST) for source in SOURCES]

    @pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"num_beams": 2, "num_return_sequences": 2}])
    def test_generation_without_cache_is_the_same(self, name: str, options: dict[str, Any]) -> None:
        model = example(name)
        assert generated(model, SOURCES, **options) == generated(model, SOURCES, use_cache=False, **options)

    @pytest.mark.parametrize("options", [{"num_return_sequences": 3}, {"num_beams": 3}, {"top_p": 0.9, "top_k": 20}])
    def test_sampling_with_cache_and_without_draws_the_same(self, name: str, options: dict[str, Any]) -> None:
        model, found = example(name), []
        for use_cache in (True, False):
            torch.manual_seed(1)
            found.append(generated(model, SOURCES, do_sample=True, use_cache=use_cache, **options))
        assert found[0] == found[1]

    def test_sampling_is_our_own(self, name: str) -> None:
        model = example(name)
        torch.manual_seed(3)
        (found,) = generated(model, SOURCES[:1], do_sample=True, top_k=0)
        torch.manual_seed(3)
        expected = [START]
        while len(expected) <= LONGEST and expected[-1] != END:
            hidden = model.model(torch.tensor(SOURCES[:1]), torch.tensor([expected]))
            probabilities = model.model.log_probabilities(hidden)[0, -1].exp()
            expected.append(int(torch.multinomial(probabilities, 1)))
        assert found == expected

    def test_logits_are_those_of_our_own_model(self, name: str) -> None:
        model = example(name)
        tokens, mask = padded(SOURCES)
        inputs = torch.tensor([[START, 4, 5]] * 3)
        expected = model.model.log_probabilities(model.model(tokens, inputs, mask.bool()))
        found = model(tokens, attention_mask=mask, decoder_input_ids=inputs)
        assert_close(found.logits, expected, rtol=1e-5, atol=1e-5)

    def test_saved_and_loaded_model_is_identical(self, name: str, tmp_path: Path) -> None:
        model = example(name)
        model.save_pretrained(tmp_path)
        loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
        assert isinstance(loaded, FastWeightForSeq2SeqLM)
        tokens, mask = padded(SOURCES)
        inputs = torch.tensor([[START, 4, 5]] * 3)
        arguments = {"attention_mask": mask, "decoder_input_ids": inputs}
        assert torch.equal(loaded(tokens, **arguments).logits, model(tokens, **arguments).logits)
        assert generated(loaded, SOURCES, num_beams=3) == generated(model, SOURCES, num_beams=3)
        assert {path.suffix for path in tmp_path.iterdir()} <= {".json", ".safetensors"}
        assert (loaded.generation_config.num_beams, loaded.generation_config.length_penalty) == (4, 0.6)

    def test_teacher_forcing_equals_step_by_step_through_the_cache(self, name: str) -> None:
        model = example(name)
        tokens, mask = padded(SOURCES)
        inputs = torch.randint(3, 40, (3, 6))
        expected = model(tokens, attention_mask=mask, decoder_input_ids=inputs).logits
        cache, encoded = None, model.get_encoder()(tokens, mask)
        for step in range(6):
            found = model(
                encoder_outputs=encoded,
                attention_mask=mask,
                decoder_input_ids=inputs[:, step : step + 1],
                past_key_values=cache,
                use_cache=True,
            )
            cache = found.past_key_values
            assert_close(found.logits[:, 0], expected[:, step], rtol=1e-4, atol=1e-4)
        assert cache.get_seq_length() == 6


# A few attentions with the usual search, every search with one attention.
SEARCHES = [(4, 0.6), (1, 0.6), (3, 1.0), (2, 0.0)]
ORDINARY = {(name, SEARCHES[0]) for name in TELLING} | {("dpfp2", search) for search in SEARCHES}


@pytest.mark.parametrize(
    ("name", "search"),
    [
        pytest.param(name, search, marks=[] if (name, search) in ORDINARY else pytest.mark.slow)
        for name in TRANSLATORS
        for search in SEARCHES
    ],
)
def test_beam_search_is_our_own(name: str, search: tuple[int, float]) -> None:
    model, (beams, penalty) = example(name), search
    found = generated(model, SOURCES[:2], num_beams=beams, length_penalty=penalty)
    assert found == [beam_search(model.model, source, beams, penalty, LONGEST) for source in SOURCES[:2]]


@pytest.mark.parametrize(
    "case", pairs_first(list(product(TRANSLATORS, [1, 4], ["left", "right"], ["mask", "no mask"])), tuple), ids=str
)
def test_a_padded_row_is_the_row_alone(case: tuple[str, int, str, str]) -> None:
    name, beams, side, with_mask = case
    model = example(name)
    tokens, mask = padded(SOURCES, side == "left")
    options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": LONGEST}
    options |= {"return_dict_in_generate": True, "output_logits": True}
    together = model.generate(tokens, attention_mask=mask if with_mask == "mask" else None, **options)
    for row, source in enumerate(SOURCES):
        alone = model.generate(torch.tensor([source]), **options)
        assert stripped(together.sequences[row].tolist()) == stripped(alone.sequences[0].tolist())
        for step, expected in enumerate(alone.logits):
            found = together.logits[step][row * beams : (row + 1) * beams]
            assert_close(found, expected, rtol=1e-4, atol=1e-4)


class TestLoss:
    def test_it_is_the_mean_over_counted_labels(self) -> None:
        model = example("linear")
        tokens, mask = padded(SOURCES)
        labels = torch.tensor([[4, 5, END], [6, END, -100], [7, 8, END]])
        found = model(tokens, attention_mask=mask, labels=labels)
        inputs = torch.tensor([[START, 4, 5], [START, 6, END], [START, 7, 8]])
        log_p = model(tokens, attention_mask=mask, decoder_input_ids=inputs).logits
        counted = labels != -100
        expected = -log_p[counted].gather(1, labels[counted][:, None]).mean()
        assert_close(found.loss, expected)
        summed = model(tokens, attention_mask=mask, labels=labels, num_items_in_batch=40)
        assert_close(summed.loss, expected * 8 / 40)

    def test_decoder_inputs_are_the_labels_shifted(self) -> None:
        labels = torch.tensor([[4, 5, END], [6, END, -100]])
        found = example("linear").prepare_decoder_input_ids_from_labels(labels)
        assert found.tolist() == [[START, 4, 5], [START, 6, END]]


class TestCache:
    def test_beams_share_the_memory_of_their_source(self) -> None:
        model = example("linear")
        tokens, mask = padded(SOURCES)
        options = {"num_beams": 4, "max_new_tokens": 3, "return_dict_in_generate": True}
        cache = model.generate(tokens, attention_mask=mask, **options).past_key_values
        assert isinstance(cache, TranslationCache)
        assert [memory.steps.shape[0] for memory in cache.memories] == [3, 3]
        assert [state.steps.shape[0] for state in cache.states] == [12, 12]

    def test_selected_rows_keep_their_memory(self) -> None:
        model = example("linear")
        tokens, mask = padded(SOURCES)
        inputs = torch.randint(3, 40, (6, 4))
        encoded = model.get_encoder()(tokens, mask)
        cache = model(encoder_outputs=encoded, decoder_input_ids=inputs[:, :3], use_cache=True).past_key_values
        expected = model(encoder_outputs=encoded, decoder_input_ids=inputs).logits[:, 3]
        rows = torch.tensor([5, 0, 2])
        cache.batch_select_indices(rows)
        found = model(encoder_outputs=encoded, decoder_input_ids=inputs[rows, 3:], past_key_values=cache).logits[:, 0]
        assert_close(found, expected[rows], rtol=1e-4, atol=1e-4)

    def test_repeated_rows_share_a_memory(self) -> None:
        model = example("linear")
        tokens, mask = padded(SOURCES)
        inputs = torch.randint(3, 40, (3, 4))
        arguments: dict[str, Any] = {"encoder_outputs": model.get_encoder()(tokens, mask)}
        cache = model(decoder_input_ids=inputs[:, :3], use_cache=True, **arguments).past_key_values
        expected = model(decoder_input_ids=inputs, **arguments).logits[:, 3]
        cache.batch_repeat_interleave(2)
        last = inputs[:, 3:].repeat_interleave(2, dim=0)
        found = model(decoder_input_ids=last, past_key_values=cache, **arguments).logits[:, 0]
        assert_close(found, expected.repeat_interleave(2, dim=0), rtol=1e-4, atol=1e-4)

    def test_another_cache_is_refused(self) -> None:
        with pytest.raises(ValueError, match="expected a TranslationCache, got DynamicCache"):
            example("linear")(
                torch.tensor([SOURCES[0]]), decoder_input_ids=torch.tensor([[START]]), past_key_values=DynamicCache()
            )


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"decoder_input_ids": torch.tensor([[1]])}, "give either input_ids or inputs_embeds"),
            ({"input_ids": torch.tensor([[5, 2]])}, "give either decoder_input_ids or decoder_inputs_embeds"),
            ({"output_attentions": True}, "output_attentions: the layers keep no attention weights"),
            ({"output_hidden_states": True}, "output_hidden_states: a translator hands out only"),
            ({"position_ids": torch.tensor([[1]])}, "unknown argument position_ids"),
            (
                {"input_ids": torch.tensor([[5, 2]]), "attention_mask": torch.ones(1, 3)},
                "attention_mask: expected shape",
            ),
        ],
    )
    def test_what_would_be_ignored_is_refused(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            example("linear")(**arguments)

    def test_embedded_inputs_give_the_same_logits(self) -> None:
        model = example("linear")
        tokens, inputs = torch.tensor([SOURCES[0]]), torch.tensor([[START, 4, 5]])
        embed = model.get_input_embeddings()
        found = model(inputs_embeds=embed(tokens), decoder_inputs_embeds=embed(inputs))
        assert torch.equal(found.logits, model(tokens, decoder_input_ids=inputs).logits)

    def test_tuples(self) -> None:
        model = example("linear")
        tokens, inputs = torch.tensor([SOURCES[0]]), torch.tensor([[START, 4, 5]])
        expected = model(tokens, decoder_input_ids=inputs)
        loss_free = model(tokens, decoder_input_ids=inputs, use_cache=False, return_dict=False)
        assert torch.equal(loss_free[0], expected.logits)
        again = model(encoder_outputs=(expected.encoder_last_hidden_state,), decoder_input_ids=inputs)
        assert torch.equal(again.logits, expected.logits)


def test_of_shares_parameters() -> None:
    model: Translator = translator("linear")
    wrapped = FastWeightForSeq2SeqLM.of(model)
    assert wrapped.model is model
    assert {name.removeprefix("model.") for name, _ in wrapped.named_parameters()} == dict(
        model.named_parameters()
    ).keys()
