"""The language model behind Hugging Face's interface: from_pretrained, save_pretrained, generate."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationMixin,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils.generic import can_return_tuple
from typing_extensions import override

from fastweights.hf.cache import FastWeightCache
from fastweights.hf.configuration import FastWeightConfig
from fastweights.hf.strict import StrictModel, newest_mask
from fastweights.kernels.native.generation import MOST_ROWS
from fastweights.memory import LayerState
from fastweights.models.language_model import LanguageModel, check_targets, check_tokens


class FastWeightForCausalLM(StrictModel, GenerationMixin):
    """A `LanguageModel` whose logits are its log probabilities."""

    config_class = FastWeightConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    _no_split_modules = ["Block"]  # noqa: RUF012  named and typed by transformers

    def __init__(self, config: FastWeightConfig) -> None:
        super().__init__(config)
        self.model = LanguageModel(config.to_language_model_config())
        self.post_init()

    @classmethod
    def of(cls, model: LanguageModel, **others: Any) -> "FastWeightForCausalLM":
        """A trained model in Hugging Face's form, sharing its parameters; `others` go into the configuration."""
        wrapped = cls(FastWeightConfig.of(model.config, **others))
        wrapped.model = model
        return wrapped.train(model.training)

    @override
    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: FastWeightCache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        num_items_in_batch: int | Tensor | None = None,
        likeliest: int = 0,
        **others: Any,
    ) -> CausalLMOutputWithPast:
        """As in transformers; `likeliest` asks for the logits of so many likeliest words only, the others may be -∞."""
        self.refuse_what_would_be_ignored(output_attentions, others)
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, and not both")
        if past_key_values is not None and not isinstance(past_key_values, FastWeightCache):
            raise ValueError(
                f"past_key_values: expected a FastWeightCache, which holds the states of the layers, got "
                f"{type(past_key_values).__name__}"
            )
        embedded = self._embedded(input_ids) if inputs_embeds is None else self._checked(inputs_embeds)
        if labels is not None:
            self._check_labels(labels, embedded)
        seen = 0 if past_key_values is None else past_key_values.get_seq_length()
        mask = None if attention_mask is None else newest_mask(attention_mask, embedded, seen)
        states = None if past_key_values is None else past_key_values.states
        recorded = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        hidden_states: list[Any] | None = [] if recorded else None
        hidden, states = _run(self.model, embedded, states, mask, hidden_states)
        kept = _kept(hidden, logits_to_keep)
        logits: Any = _of_likeliest(self.model, kept, likeliest) if likeliest else self.model.log_probabilities(kept)
        if use_cache if use_cache is not None else self.config.use_cache and not self.training:
            past_key_values = past_key_values or FastWeightCache(len(self.model.blocks))
            past_key_values.store(states, embedded.shape[1])
        return CausalLMOutputWithPast(
            loss=None if labels is None else self._loss(hidden, labels, num_items_in_batch),  # type: ignore[arg-type]
            logits=logits,
            past_key_values=past_key_values,
            hidden_states=None if hidden_states is None else tuple(hidden_states),
        )

    def _embedded(self, input_ids: Tensor | None) -> Tensor:
        assert input_ids is not None
        check_tokens("input_ids", input_ids, self.model.config.vocabulary_size)
        embedded: Tensor = self.model.embedding(input_ids)
        return embedded

    def _checked(self, embedded: Tensor) -> Tensor:
        """Embeddings of the caller's own, if the layers can take them."""
        width = self.model.config.model_dim
        if embedded.dim() != 3 or embedded.shape[-1] != width or not embedded.is_floating_point():
            raise ValueError(
                f"inputs_embeds: expected a floating-point tensor of shape (b, t, {width}), "
                f"got {embedded.dtype} of shape {tuple(embedded.shape)}"
            )
        return embedded

    def _check_labels(self, labels: Tensor, embedded: Tensor) -> None:
        size = self.model.config.vocabulary_size
        check_tokens("labels", labels.masked_fill(labels == -100, 0), size, ", or -100 for none")
        check_targets("labels", labels, embedded)

    def _loss(self, hidden: Tensor, labels: Tensor, num_items: int | Tensor | None) -> Tensor:
        """Over labels that are not -100, each predicted from the positions before it.

        The mean, or the sum divided by `num_items`, which the Trainer counts in all batches that it accumulates.
        """
        targets = labels[:, 1:]
        counted = targets != -100
        losses = self.model.losses(hidden[:, :-1], targets.masked_fill(~counted, 0))[counted]
        return losses.mean() if num_items is None else losses.sum() / num_items

    @override
    @torch.no_grad()
    def generate(self, inputs: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """As in transformers, but an empty prompt is refused."""
        given = (kwargs.get("inputs_embeds"), kwargs.get("input_ids"), inputs)
        prompt = next((tokens for tokens in given if tokens is not None), None)
        if prompt is not None and prompt.numel() == 0:
            raise ValueError(
                f"generate: no token in a prompt of shape {tuple(prompt.shape)}; possible: at least one, such as the "
                "end of a line, or no prompt at all to start from bos_token_id"
            )
        return super().generate(inputs, *args, **kwargs)  # type: ignore[misc]

    @override
    def _sample(  # type: ignore[override]
        self, input_ids: Any, logits_processor: Any, stopping_criteria: Any, generation_config: Any, **others: Any
    ) -> Any:
        """The loop of transformers; where few likely words decide about the next one, no others are evaluated."""
        count = deciding_words(logits_processor, generation_config)
        if count is not None and len(input_ids) <= MOST_ROWS and self.device.type == "cpu":
            others["likeliest"] = count
        given = (logits_processor, stopping_criteria, generation_config)
        return super()._sample(input_ids, *given, **others)  # type: ignore[misc]

    @override
    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> Any:
        """The embedding if it has the size that is asked for; there is no other."""
        size, multiple = self.config.vocab_size, pad_to_multiple_of or 1
        wanted = -(-(size if new_num_tokens is None else new_num_tokens) // multiple) * multiple
        if wanted != size:
            raise ValueError(
                f"resize_token_embeddings: expected {size} words, got {wanted}: they are ordered by frequency, and "
                f"their number is fixed by the cutoffs of the adaptive softmax; possible: train a new model, from "
                f"LanguageModelConfig(vocabulary_size={wanted})"
            )
        return self.model.embedding

    @override
    def get_input_embeddings(self) -> nn.Module:
        return self.model.embedding


def _run(
    model: LanguageModel,
    embedded: Tensor,
    states: list[LayerState] | None,
    mask: Tensor | None,
    record: list[Tensor] | None,
) -> tuple[Tensor, list[LayerState]]:
    """`model.run`; appends to the record the input of each layer, then the output of the model."""
    if record is None:
        return model.run(embedded, states, mask)
    hooks = [block.register_forward_pre_hook(lambda _, inputs: record.append(inputs[0])) for block in model.blocks]
    try:
        hidden, states = model.run(embedded, states, mask)
    finally:
        for hook in hooks:
            hook.remove()
    record.append(hidden)
    return hidden, states


def deciding_words(processors: Iterable[Any], generation: Any) -> int | None:
    """How many of the likeliest words decide about the next one in transformers' loop; None if all of them do."""
    if generation.return_dict_in_generate and (generation.output_logits or generation.output_scores):
        return None
    removed, kept = 0, None if generation.do_sample else 1
    for processor in processors:
        if type(processor) in (MinLengthLogitsProcessor, MinNewTokensLengthLogitsProcessor):
            removed += processor.eos_token_id.numel()
        elif type(processor) is TopKLogitsWarper:
            kept = processor.top_k if kept is None else min(kept, processor.top_k)
        elif type(processor) is not TemperatureLogitsWarper and (
            kept is None or type(processor) is not TopPLogitsWarper
        ):
            return None
    return None if kept is None else removed + kept


def _of_likeliest(model: LanguageModel, hidden: Tensor, count: int) -> Tensor:
    """log p as `log_probabilities` gives it, of words that are not among the likeliest perhaps -∞."""
    rows = [model.scores(row).of_likeliest(count) for row in hidden.flatten(0, 1)]
    return torch.stack(rows).view(*hidden.shape[:-1], -1)


def _kept(hidden: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """The positions whose logits are asked for: the last `logits_to_keep`, all if 0, or those that a tensor names."""
    if isinstance(logits_to_keep, int):
        return hidden[:, -logits_to_keep:] if logits_to_keep else hidden
    if logits_to_keep.dim() != 1:
        raise ValueError(
            "logits_to_keep: expected how many of the last positions, or a tensor with one dimension that names "
            f"positions, got a tensor of shape {tuple(logits_to_keep.shape)}"
        )
    return hidden[:, logits_to_keep]


def register() -> None:
    """Register the model with `AutoConfig` and `AutoModelForCausalLM`; calling it again changes nothing."""
    AutoConfig.register(FastWeightConfig.model_type, FastWeightConfig, exist_ok=True)
    AutoModelForCausalLM.register(FastWeightConfig, FastWeightForCausalLM, exist_ok=True)
