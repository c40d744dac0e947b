"""The Hugging Face model: the logits of our own, generation with and without cache, padding, saving and loading."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    GenerationConfig,
    MinNewTokensLengthLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from fastweights.feature_maps import EluPlusOne, Favor
from fastweights.hf import FastWeightCache, FastWeightConfig, FastWeightForCausalLM, causal_lm
from fastweights.hf.causal_lm import deciding_words
from fastweights.memory import AttentionNormalisation, NoNormalisation
from fastweights.models.attention import (
    AttentionConfig,
    FastWeightAttentionConfig,
    RelativeAttentionConfig,
    SoftmaxAttentionConfig,
)
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.update_rules import FastWeightMemoryRule, SumRule

CHOICES = {
    "delta": FastWeightAttentionConfig(),
    "delta-attention-normalised": FastWeightAttentionConfig(attention_normalisation=AttentionNormalisation()),
    "linear": FastWeightAttentionConfig(EluPlusOne(), SumRule(), NoNormalisation(), AttentionNormalisation()),
    "schlag2021": FastWeightAttentionConfig(update_rule=FastWeightMemoryRule()),
    "performer": FastWeightAttentionConfig(Favor(8), SumRule(), NoNormalisation(), AttentionNormalisation()),
    "softmax": SoftmaxAttentionConfig(),
    "transformer-xl": RelativeAttentionConfig(memory_length=64),
}
TELLING = ("delta", "performer", "softmax", "transformer-xl")
"""Each has a state of another kind; the others are for the slow tests."""
GREEDY: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False}


def example(choice: AttentionConfig, positions: bool = True) -> tuple[FastWeightForCausalLM, Tensor]:
    torch.manual_seed(0)
    config = LanguageModelConfig(
        vocabulary_size=60, model_dim=32, num_heads=2, num_layers=2, feed_forward_dim=64, cutoffs=(20,),
        attention=choice, positions=positions,
    )  # fmt: skip
    model = LanguageModel(config).eval()
    for name, parameter in model.named_parameters():
        # What is read from the memory decides on the next token, or a wrong memory would go unnoticed.
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=3.0 if "attention.output" in name else 0.5)
    wrapped = FastWeightForCausalLM.of(model, eos_token_id=0, pad_token_id=1, bos_token_id=2)
    return wrapped, torch.randint(3, 60, (2, 7))


def generated(model: FastWeightForCausalLM, tokens: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """The new tokens, and the logits that each of them was chosen from (b t vocabulary)."""
    found = model.generate(tokens, return_dict_in_generate=True, output_logits=True, **options)
    return found.sequences[:, tokens.shape[1] :], torch.stack(found.logits, dim=1)


def assert_same(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    """The same tokens for the same reasons: a wrong memory need not change the likeliest token."""
    assert torch.equal(found[0], expected[0])
    assert_close(found[1], expected[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(choice, id=name, marks=[] if name in TELLING else pytest.mark.slow)
        for name, choice in CHOICES.items()
    ],
)
class TestEveryAttention:
    def test_logits_are_those_of_our_own_model(self, choice: AttentionConfig) -> None:
        model, tokens = example(choice)
        hidden, _ = model.model(tokens)
        assert torch.equal(model(tokens).logits, model.model.log_probabilities(hidden))

    @pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"num_beams": 2, "num_return_sequences": 2}])
    def test_cached_generation_equals_uncached(self, choice: AttentionConfig, options: dict[str, Any]) -> None:
        model, tokens = example(choice)
        cached = generated(model, tokens, **GREEDY, **options)
        assert_same(cached, generated(model, tokens, use_cache=False, **GREEDY, **options))

    @pytest.mark.parametrize("options", [{"num_return_sequences": 3}, {"num_beams": 3}, {"top_p": 0.9, "top_k": 20}])
    def test_sampled_generation_equals_uncached(self, choice: AttentionConfig, options: dict[str, Any]) -> None:
        model, tokens = example(choice)
        options = {"max_new_tokens": 12, "do_sample": True, **options}
        torch.manual_seed(1)
        cached = generated(model, tokens, **options)
        torch.manual_seed(1)
        assert_same(cached, generated(model, tokens, use_cache=False, **options))

    @pytest.mark.parametrize("batch", [1, 2])
    def test_left_padding_changes_nothing(self, choice: AttentionConfig, batch: int) -> None:
        model, tokens = example(choice)
        tokens = tokens[:batch]
        padded = torch.cat([torch.ones(batch, 3, dtype=torch.int64), tokens], dim=1)
        mask = (torch.arange(10) >= 3).long().expand(batch, 10)
        assert_same(generated(model, padded, attention_mask=mask, **GREEDY), generated(model, tokens, **GREEDY))

    @pytest.mark.parametrize("options", [{}, {"num_beams": 3}])
    def test_a_batch_of_different_lengths_is_what_each_is_alone(
        self, choice: AttentionConfig, options: dict[str, Any]
    ) -> None:
        model, tokens = example(choice)
        lengths = (7, 3)
        padded, mask = torch.ones(2, 7, dtype=torch.int64), torch.zeros(2, 7, dtype=torch.int64)
        for row, length in enumerate(lengths):
            padded[row, 7 - length :], mask[row, 7 - length :] = tokens[row, :length], 1
        beams = options.get("num_beams", 1)
        together, logits = generated(model, padded, attention_mask=mask, **GREEDY, **options)
        for row, length in enumerate(lengths):
            alone, expected = generated(model, tokens[row : row + 1, :length], **GREEDY, **options)
            steps = alone.shape[1]
            assert torch.equal(together[row, :steps], alone[0])
            assert set(together[row, steps:].tolist()) <= {1}
            steps = expected.shape[1]
            assert_close(logits[row * beams : (row + 1) * beams, :steps], expected[:, :steps], rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("real", [[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 5, 6, 7, 9], [3, 4, 6, 7, 8, 9, 11]])
    def test_padding_changes_nothing_wherever_it_stands(self, choice: AttentionConfig, real: list[int]) -> None:
        """The logits, and what is read from the memory afterwards."""
        model, tokens = example(choice)
        padded, mask = torch.ones(2, 12, dtype=torch.int64), torch.zeros(2, 12, dtype=torch.int64)
        padded[:, real], mask[:, real] = tokens, 1
        expected, found = model(tokens, use_cache=True), model(padded, attention_mask=mask, use_cache=True)
        assert_close(found.logits[:, real], expected.logits, rtol=1e-5, atol=1e-5)
        then = torch.cat([mask, torch.ones(2, 3, dtype=torch.int64)], dim=1)
        assert_close(
            model(tokens[:, :3], past_key_values=found.past_key_values, attention_mask=then).logits,
            model(tokens[:, :3], past_key_values=expected.past_key_values).logits,
            rtol=1e-5,
            atol=1e-5,
        )

    def test_generation_goes_on_from_a_returned_cache(self, choice: AttentionConfig) -> None:
        model, tokens = example(choice)
        expected = generated(model, tokens, **GREEDY)
        cache = model(tokens[:, :5], use_cache=True).past_key_values
        assert cache.get_seq_length() == 5
        assert_same(generated(model, tokens, past_key_values=cache, **GREEDY), expected)

    def test_saved_and_loaded_model_is_identical(self, choice: AttentionConfig, tmp_path: Path) -> None:
        model, tokens = example(choice)
        model.save_pretrained(tmp_path)
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
        assert isinstance(loaded, FastWeightForCausalLM)
        assert torch.equal(loaded(tokens).logits, model(tokens).logits)
        assert {path.suffix for path in tmp_path.iterdir()} <= {".json", ".safetensors"}

    def test_embedded_inputs_give_the_same_logits(self, choice: AttentionConfig) -> None:
        model, tokens = example(choice)
        embedded = model.get_input_embeddings()(tokens)
        assert torch.equal(model(inputs_embeds=embedded).logits, model(tokens).logits)


def test_loss_is_the_mean_over_counted_labels() -> None:
    model, tokens = example(CHOICES["delta"])
    labels = tokens.clone()
    labels[0, :4] = -100
    log_p = model(tokens).logits[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    assert_close(model(tokens, labels=labels).loss, -log_p[labels[:, 1:] != -100].mean())


def test_gradient_checkpointing_changes_no_gradient() -> None:
    model, tokens = example(CHOICES["delta"])
    model.train()

    def gradients() -> list[Tensor]:
        torch.manual_seed(0)
        return list(torch.autograd.grad(model(tokens, labels=tokens).loss, list(model.parameters())))

    expected = gradients()
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing
    assert_close(gradients(), expected, rtol=0, atol=0)
    model.gradient_checkpointing_disable()
    assert not model.is_gradient_checkpointing


def test_memory_does_not_grow() -> None:
    model, tokens = example(CHOICES["delta"], positions=False)
    cache = FastWeightCache(2)
    sizes = set()
    for step in range(20):
        model(tokens[:, step % 7, None], past_key_values=cache, use_cache=True)
        sizes.add(sum(state.weights.numel() for state in cache.states or []))
    assert len(sizes) == 1
    assert cache.get_seq_length() == 20


@torch.no_grad()
def test_steps_after_the_real_ones_leave_the_memory_as_it_is_to_the_last_bit() -> None:
    model, tokens = example(CHOICES["delta"])
    mask = (torch.arange(10) < 7).long().expand(2, 10)
    padded = torch.cat([tokens, torch.ones(2, 3, dtype=torch.int64)], dim=1)
    longer = model(padded, attention_mask=mask, use_cache=True).past_key_values
    again = model(torch.ones(2, 2, dtype=torch.int64), past_key_values=copy.deepcopy(longer),
                  attention_mask=torch.zeros(2, 12, dtype=torch.int64), use_cache=True).past_key_values  # fmt: skip
    assert again.get_seq_length() == 12
    for before, after in zip(longer.states or [], again.states or [], strict=True):
        assert torch.equal(before.weights, after.weights)
        assert after.steps.tolist() == [7, 7]


@torch.no_grad()
def test_a_copied_cache_is_independent() -> None:
    model, tokens = example(CHOICES["delta"])
    cache = model(tokens, use_cache=True).past_key_values
    expected = model(tokens[:, :1], past_key_values=copy.deepcopy(cache)).logits
    assert torch.equal(model(tokens[:, :1], past_key_values=copy.deepcopy(cache)).logits, expected)


def test_what_cannot_be_done_is_refused() -> None:
    model, tokens = example(CHOICES["delta"])
    with pytest.raises(ValueError, match="expected a FastWeightCache"):
        model(tokens, past_key_values=DynamicCache())
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        model()
    with pytest.raises(ValueError, match="unknown field 'widht'"):
        FastWeightConfig(language_model={"widht": 3})
    # Both would have to go back to an earlier step.
    with pytest.raises(ValueError, match="not supported with stateful models"):
        model.generate(tokens[:1], prompt_lookup_num_tokens=3, **GREEDY)
    with pytest.raises(ValueError, match="not supported with stateful models"):
        model.generate(tokens[:1], assistant_model=model, **GREEDY)


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": False},
        {"do_sample": False, "min_new_tokens": 8},
        {"do_sample": True, "top_k": 5},
        {"do_sample": True, "top_k": 7, "top_p": 0.8, "temperature": 1.7, "min_new_tokens": 3},
    ],
    ids=str,
)
def test_words_that_cannot_come_next_are_left_out_and_change_nothing(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokens = example(CHOICES["delta"])
    left_out = 0

    def watched(*arguments: Any) -> Tensor:
        nonlocal left_out
        logits = original(*arguments)
        left_out += int(logits.isinf().sum())
        return logits

    original = causal_lm._of_likeliest
    monkeypatch.setattr(causal_lm, "_of_likeliest", watched)
    torch.manual_seed(1)
    found = model.generate(tokens, max_new_tokens=40, **options)
    assert left_out
    monkeypatch.setattr(causal_lm, "deciding_words", lambda *_: None)
    torch.manual_seed(1)
    assert torch.equal(found, model.generate(tokens, max_new_tokens=40, **options))


def test_how_many_words_decide() -> None:
    greedy, drawn = GenerationConfig(do_sample=False), GenerationConfig(do_sample=True)
    kept, nucleus, warmer = TopKLogitsWarper(5), TopPLogitsWarper(0.9), TemperatureLogitsWarper(1.3)
    longer = MinNewTokensLengthLogitsProcessor(1, 4, eos_token_id=[0, 2], device="cpu")
    assert deciding_words([], greedy) == 1
    assert deciding_words([longer], greedy) == 3
    assert deciding_words([longer, warmer, kept, nucleus], drawn) == 7
    assert deciding_words([], drawn) is None
    assert deciding_words([warmer, nucleus, kept], drawn) is None
    assert deciding_words([RepetitionPenaltyLogitsProcessor(1.2), kept], drawn) is None
    asked = GenerationConfig(do_sample=False, return_dict_in_generate=True, output_logits=True)
    assert deciding_words([], asked) is None


def test_many_rows_at_once_are_evaluated_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = example(CHOICES["delta"])
    monkeypatch.setattr(causal_lm, "_of_likeliest", lambda *_: pytest.fail("row by row"))
    model.generate(tokens.repeat(5, 1), **GREEDY)
