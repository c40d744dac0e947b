"""The translator behind Hugging Face's interface: from_pretrained, save_pretrained, generate, Seq2SeqTrainer."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSeq2SeqLM, GenerationConfig, GenerationMixin
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils.generic import can_return_tuple
from typing_extensions import override

from fastweights.hf.configuration import FastWeightTranslationConfig
from fastweights.hf.strict import StrictModel, newest_mask
from fastweights.hf.translation_cache import TranslationCache
from fastweights.memory import LayerState
from fastweights.models.translator import Translator

IGNORED_LABEL = -100


@dataclass
class EncodedSource(BaseModelOutput):
    """The encoder's hidden vectors, and which of them are real: the decoder must leave out the same padding."""

    attention_mask: Tensor | None = None


class TranslatorEncoder(nn.Module):
    """The encoder as `generate` calls it."""

    main_input_name = "input_ids"

    def __init__(self, model: Translator, pad_token_id: int | None) -> None:
        super().__init__()
        self.model, self.pad_token_id = model, pad_token_id

    @override
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> EncodedSource:
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, and not both")
        if output_attentions or output_hidden_states:
            raise ValueError("output_attentions and output_hidden_states: a translator keeps neither")
        if attention_mask is None and input_ids is not None and self.pad_token_id is not None:
            # transformers makes no mask for encoder-decoders, and padding must not be translated.
            attention_mask = (input_ids != self.pad_token_id).long()
        embedded = self.model.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        mask = None if attention_mask is None else newest_mask(attention_mask, embedded, 0)
        encoded = self.model.run_encoder(embedded, mask)
        return EncodedSource(last_hidden_state=encoded, attention_mask=attention_mask)  # type: ignore[arg-type]


class FastWeightForSeq2SeqLM(StrictModel, GenerationMixin):
    """A `Translator` whose logits are its log probabilities."""

    config_class = FastWeightTranslationConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    _no_split_modules = ["Block", "DecoderBlock"]  # noqa: RUF012  named and typed by transformers

    def __init__(self, config: FastWeightTranslationConfig) -> None:
        super().__init__(config)
        self.model = Translator(config.to_translator_config())
        self.post_init()

    @classmethod
    def of(
        cls, model: Translator, *, beams: int = 4, length_penalty: float = 0.6, **others: Any
    ) -> "FastWeightForSeq2SeqLM":
        """A trained translator in Hugging Face's form, sharing its parameters; `others` go into the configuration."""
        wrapped = cls(FastWeightTranslationConfig.of(model.config, **others))
        wrapped.model = model
        wrapped.generation_config = GenerationConfig.from_model_config(wrapped.config)
        wrapped.generation_config.update(num_beams=beams, length_penalty=length_penalty, max_new_tokens=256)
        return wrapped.train(model.training)

    @override
    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[Tensor, ...] | None = None,
        past_key_values: TranslationCache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        num_items_in_batch: int | Tensor | None = None,
        **others: Any,
    ) -> Seq2SeqLMOutput:
        self.refuse_what_would_be_ignored(output_attentions, others)
        if output_hidden_states:
            raise ValueError("output_hidden_states: a translator hands out only encoder_last_hidden_state")
        if past_key_values is not None and not isinstance(past_key_values, TranslationCache):
            raise ValueError(f"past_key_values: expected a TranslationCache, got {type(past_key_values).__name__}")
        source = encoder_outputs
        if source is None:
            source = self.get_encoder()(input_ids, attention_mask, inputs_embeds)
        elif not isinstance(source, BaseModelOutput):
            source = EncodedSource(last_hidden_state=source[0])  # type: ignore[arg-type]
        embedded = self._decoder_embeddings(decoder_input_ids, decoder_inputs_embeds, labels)
        hidden, cache = self._decode(embedded, source, attention_mask, decoder_attention_mask, past_key_values)
        keep = use_cache if use_cache is not None else self.config.use_cache and not self.training
        return Seq2SeqLMOutput(
            loss=None if labels is None else self._loss(hidden, labels, num_items_in_batch),  # type: ignore[arg-type]
            logits=self.model.log_probabilities(hidden),
            past_key_values=cache if keep else None,  # type: ignore[arg-type]
            encoder_last_hidden_state=source.last_hidden_state,
        )

    def _decoder_embeddings(self, tokens: Tensor | None, embedded: Tensor | None, labels: Tensor | None) -> Tensor:
        if tokens is None and embedded is None and labels is not None:
            tokens = self.prepare_decoder_input_ids_from_labels(labels)
        if (tokens is None) == (embedded is None):
            raise ValueError("give either decoder_input_ids or decoder_inputs_embeds, or labels to make them from")
        return self.model.embedding(tokens) if embedded is None else embedded

    def _decode(
        self,
        embedded: Tensor,
        source: BaseModelOutput,
        attention_mask: Tensor | None,
        decoder_attention_mask: Tensor | None,
        cache: TranslationCache | None,
    ) -> tuple[Tensor, TranslationCache]:
        cache = TranslationCache(len(self.model.decoder)) if cache is None else cache
        memories = cache.memories
        if memories is None:
            memories = self._write(source, attention_mask)
            cache.store_memories(memories)
        seen = cache.get_seq_length()
        mask = None if decoder_attention_mask is None else newest_mask(decoder_attention_mask, embedded, seen)
        hidden, states = self.model.run_decoder(embedded, memories, cache.states, mask)
        cache.store(states, embedded.shape[1])
        return hidden, cache

    def _write(self, source: BaseModelOutput, attention_mask: Tensor | None) -> list[LayerState]:
        encoded = source.last_hidden_state
        assert encoded is not None
        given = getattr(source, "attention_mask", None) if attention_mask is None else attention_mask
        return self.model.write(encoded, None if given is None else newest_mask(given, encoded, 0))

    def _loss(self, hidden: Tensor, labels: Tensor, num_items: int | Tensor | None) -> Tensor:
        """Over labels that are not -100: the mean, or the sum divided by `num_items`, which the Trainer counts."""
        losses = self.model.losses(hidden, labels)
        return losses.mean() if num_items is None else losses.sum() / num_items

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """<s> y₁ … yₙ for the labels y₁ … yₙ </s>."""
        start = torch.full_like(labels[:, :1], self.config.decoder_start_token_id)
        inputs = torch.cat([start, labels[:, :-1]], dim=1)
        return inputs.masked_fill(inputs == IGNORED_LABEL, self.config.pad_token_id)

    @override
    def _expand_inputs_for_generation(
        self, expand_size: int = 1, is_encoder_decoder: bool = False, input_ids: Tensor | None = None, **kwargs: Any
    ) -> tuple[Any, dict[str, Any]]:
        """As in transformers, but the source stays as it is: all hypotheses of a sentence read one memory."""
        shared = {name: kwargs.pop(name) for name in ("encoder_outputs", "attention_mask") if name in kwargs}
        input_ids, kwargs = super()._expand_inputs_for_generation(expand_size, False, input_ids, **kwargs)  # type: ignore
        return input_ids, kwargs | shared

    @override
    def get_encoder(self, modality: str | None = None) -> TranslatorEncoder:
        return TranslatorEncoder(self.model, self.config.pad_token_id)

    @override
    def get_input_embeddings(self) -> nn.Module:
        return self.model.embedding


def register() -> None:
    """Make `AutoConfig` and `AutoModelForSeq2SeqLM` know the model; calling it again changes nothing."""
    AutoConfig.register(FastWeightTranslationConfig.model_type, FastWeightTranslationConfig, exist_ok=True)
    AutoModelForSeq2SeqLM.register(FastWeightTranslationConfig, FastWeightForSeq2SeqLM, exist_ok=True)
