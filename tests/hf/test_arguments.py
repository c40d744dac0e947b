"""What transformers may hand to the model besides tokens: each is heeded, or refused in a sentence."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights.hf import FastWeightForCausalLM
from fastweights.models.language_model import LanguageModel, LanguageModelConfig

GREEDY: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False}


def example(pre_norm: bool = False) -> tuple[FastWeightForCausalLM, Tensor]:
    torch.manual_seed(0)
    config = LanguageModelConfig(
        vocabulary_size=60, model_dim=32, num_heads=2, num_layers=2, feed_forward_dim=64, cutoffs=(20,),
        pre_norm=pre_norm,
    )  # fmt: skip
    model = FastWeightForCausalLM.of(LanguageModel(config).eval(), bos_token_id=2)
    return model, torch.randint(3, 60, (2, 7))


def gradients(model: FastWeightForCausalLM) -> list[Tensor]:
    found = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    return [gradient for gradient in found if gradient is not None]


class TestLoss:
    def test_with_a_number_of_items_it_is_the_sum_divided_by_it(self) -> None:
        model, tokens = example()
        labels = tokens.clone()
        labels[0, :4] = -100
        counted = int((labels[:, 1:] != -100).sum())
        mean = model(tokens, labels=labels).loss
        for number in (40, torch.tensor(40)):
            found = model(tokens, labels=labels, num_items_in_batch=number).loss
            assert_close(found, mean * counted / 40)

    def test_accumulated_gradients_are_those_of_the_whole_batch(self) -> None:
        """As the Trainer accumulates: it adds up and leaves the division to the model."""
        model, tokens = example()
        labels = tokens.clone()
        labels[0, :4] = -100
        model(tokens, labels=labels).loss.backward()
        expected = gradients(model)
        number = (labels[:, 1:] != -100).sum()
        for row in range(2):
            part = {"input_ids": tokens[row : row + 1], "labels": labels[row : row + 1]}
            model(**part, num_items_in_batch=number).loss.backward()
        assert_close(gradients(model), expected)

    def test_the_trainer_counts_the_labels_that_the_loss_counts(self) -> None:
        model, _ = example()
        assert model.loss_type == "ForCausalLM"


class TestHiddenStates:
    @pytest.mark.parametrize("pre_norm", [False, True])
    def test_they_lead_from_the_embedding_to_the_logits(self, pre_norm: bool) -> None:
        model, tokens = example(pre_norm)
        own = model.model
        assert own.positions is not None
        expected = [own.positions(own.embedding(tokens))]
        for block in own.blocks:
            expected.append(block(expected[-1])[0])
        expected[-1] = own.final_norm(expected[-1])
        found = model(tokens, output_hidden_states=True)
        assert_close(found.hidden_states, tuple(expected))
        assert_close(own.log_probabilities(found.hidden_states[-1]), found.logits)

    def test_they_come_when_asked_for_only(self) -> None:
        model, tokens = example()
        model(tokens, output_hidden_states=True)
        assert model(tokens).hidden_states is None
        model.config.output_hidden_states = True
        assert len(model(tokens).hidden_states) == 3
        assert model(tokens, output_hidden_states=False).hidden_states is None

    @pytest.mark.parametrize("beams", [1, 2])
    def test_generation_gives_those_of_every_step(self, beams: int) -> None:
        model, tokens = example()
        asked: dict[str, Any] = {"return_dict_in_generate": True, "output_hidden_states": True, "num_beams": beams}
        found = model.generate(tokens, **asked, **GREEDY).hidden_states
        shapes = [[tuple(layer.shape) for layer in step] for step in found]
        assert shapes == [[(2 * beams, 7, 32)] * 3] + [[(2 * beams, 1, 32)] * 3] * (len(found) - 1)
        assert len(found) > 1

    def test_attention_weights_are_refused(self) -> None:
        model, tokens = example()
        with pytest.raises(ValueError, match="output_attentions: the layers keep no attention weights"):
            model(tokens, output_attentions=True)
        with pytest.raises(ValueError, match="output_attentions: the layers keep no attention weights"):
            model.generate(tokens, return_dict_in_generate=True, output_attentions=True, **GREEDY)


class TestLogitsToKeep:
    @pytest.mark.parametrize("positions", [torch.tensor([1, 3]), torch.tensor([-1]), torch.arange(7) > 4])
    def test_positions_can_be_named(self, positions: Tensor) -> None:
        model, tokens = example()
        assert_close(model(tokens, logits_to_keep=positions).logits, model(tokens).logits[:, positions])

    @pytest.mark.parametrize("number", [0, 1, 3, 7, 9])
    def test_or_the_last_ones_counted(self, number: int) -> None:
        model, tokens = example()
        expected = model(tokens).logits[:, max(7 - number, 0) if number else 0 :]
        assert_close(model(tokens, logits_to_keep=number).logits, expected)

    def test_another_shape_is_refused(self) -> None:
        model, tokens = example()
        with pytest.raises(ValueError, match=r"logits_to_keep: expected .* got a tensor of shape \(2, 7\)"):
            model(tokens, logits_to_keep=torch.ones(2, 7, dtype=torch.bool))


class TestMask:
    @pytest.mark.parametrize("shape", [(2, 3), (2, 6), (2, 8), (1, 7), (2, 7, 7)])
    def test_one_that_does_not_fit_is_refused(self, shape: tuple[int, ...]) -> None:
        model, tokens = example()
        message = rf"attention_mask: expected shape \(2, 7\), .* got \({', '.join(map(str, shape))}\)$"
        with pytest.raises(ValueError, match=message):
            model(tokens, attention_mask=torch.ones(shape, dtype=torch.int64))

    def test_it_may_cover_what_is_in_the_cache(self) -> None:
        model, tokens = example()
        mask = torch.tensor([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0, 1]])
        real = mask[:, 5:].bool()
        expected = model(tokens, attention_mask=mask).logits[:, 5:][real]
        for columns in (mask, mask[:, 5:]):
            cache = model(tokens[:, :5], use_cache=True).past_key_values
            found = model(tokens[:, 5:], attention_mask=columns, past_key_values=cache)
            assert_close(found.logits[real], expected)
        cache = model(tokens[:, :5], use_cache=True).past_key_values
        with pytest.raises(ValueError, match=r"shape \(2, 2\), .* \(2, 7\) with the 5 in the cache, got \(2, 8\)"):
            model(tokens[:, 5:], attention_mask=torch.ones(2, 8), past_key_values=cache)


class TestEmptyPrompt:
    @pytest.mark.parametrize("name", ["inputs", "input_ids", "inputs_embeds"])
    def test_it_is_refused(self, name: str) -> None:
        model, _ = example()
        prompt = torch.zeros(1, 0, 32) if name == "inputs_embeds" else torch.zeros(1, 0, dtype=torch.int64)
        with pytest.raises(ValueError, match=r"no token in a prompt of shape \(1, 0.* bos_token_id"):
            model.generate(**{name: prompt}, **GREEDY)

    def test_no_prompt_at_all_starts_from_the_first_token(self) -> None:
        model, _ = example()
        assert torch.equal(model.generate(**GREEDY), model.generate(torch.tensor([[2]]), **GREEDY))


class TestVocabulary:
    @pytest.mark.parametrize("asked", [(70,), (50,), (None, 64), (60, 64)])
    def test_its_size_is_fixed(self, asked: tuple[int | None, ...]) -> None:
        model, tokens = example()
        expected = model(tokens).logits
        with pytest.raises(ValueError, match=r"expected 60 words.* fixed by the cutoffs .*vocabulary_size="):
            model.resize_token_embeddings(*asked)
        assert torch.equal(model(tokens).logits, expected)

    @pytest.mark.parametrize("asked", [(), (60,), (None, 20), (55, 20)])
    def test_asking_for_the_size_it_has_changes_nothing(self, asked: tuple[int | None, ...]) -> None:
        model, _ = example()
        assert model.resize_token_embeddings(*asked) is model.get_input_embeddings()


class TestOtherArguments:
    @pytest.mark.parametrize("name", ["position_ids", "seq_idx", "lables"])
    def test_one_that_would_be_ignored_is_refused(self, name: str) -> None:
        model, tokens = example()
        with pytest.raises(ValueError, match=f"unknown argument {name}; possible: input_ids, .* num_items_in_batch"):
            model(tokens, **{name: torch.zeros_like(tokens)})

    def test_what_tokenizers_and_older_versions_add_changes_nothing(self) -> None:
        model, tokens = example()
        added = {"token_type_ids": torch.zeros_like(tokens), "cache_position": torch.arange(7), "position_ids": None}
        assert torch.equal(model(tokens, **added).logits, model(tokens).logits)

    def test_a_tuple_can_be_asked_for(self) -> None:
        model, tokens = example()
        loss, logits = model(tokens, labels=tokens, use_cache=False, return_dict=False)
        expected = model(tokens, labels=tokens)
        assert torch.equal(loss, expected.loss)
        assert torch.equal(logits, expected.logits)


@pytest.mark.usefixtures("without_shape_checks")
class TestTokens:
    @pytest.mark.parametrize(
        ("change", "got"),
        [
            (Tensor.float, "got torch.float32"),
            (lambda tokens: tokens[0], r"got .*\(7,\)"),
            (lambda tokens: tokens + 60, "from 0 to 59.* got 6"),
            (lambda tokens: tokens - 60, "from 0 to 59.* got -"),
        ],
    )
    def test_what_is_no_token_id_is_told(self, change: Callable[[Tensor], Tensor], got: str) -> None:
        model, tokens = example()
        with pytest.raises(ValueError, match=rf"input_ids: .*vocabulary of 60.*{got}"):
            model(change(tokens))
        with pytest.raises(ValueError, match=rf"labels: .*{got}"):
            model(tokens, labels=change(tokens))

    def test_labels_are_as_many_as_tokens(self) -> None:
        model, tokens = example()
        for given in ({"input_ids": tokens}, {"inputs_embeds": model.model.embedding(tokens)}):
            with pytest.raises(ValueError, match=r"labels: expected one for each of the \(2, 7\) .*got \(2, 6\)"):
                model(**given, labels=tokens[:, 1:])

    def test_a_label_of_minus_100_is_left_out_and_another_negative_one_is_told(self) -> None:
        model, tokens = example()
        labels = tokens.clone()
        labels[0, 3:] = -100
        assert model(tokens, labels=labels).loss.isfinite()
        labels[0, 3:] = -1
        with pytest.raises(ValueError, match=r"labels: .*or -100 .* got -1 to"):
            model(tokens, labels=labels)

    @pytest.mark.parametrize("shape", [(2, 7, 16), (7, 32), (2, 7, 32, 1)])
    def test_embeddings_of_another_width_are_told(self, shape: tuple[int, ...]) -> None:
        model, _ = example()
        with pytest.raises(ValueError, match=rf"inputs_embeds: .*\(b, t, 32\), got .*{re.escape(str(shape))}"):
            model(inputs_embeds=torch.randn(shape))

    def test_embeddings_in_whole_numbers_are_told(self) -> None:
        model, tokens = example()
        with pytest.raises(ValueError, match=r"inputs_embeds: .*floating-point .*got torch.int64"):
            model(inputs_embeds=tokens[..., None].expand(2, 7, 32))
