"""The language model behind Hugging Face's interface: from_pretrained, save_pretrained, generate."""

from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import CausalLMOutputWithPast
from typing_extensions import override

from fastweights.hf.cache import FastWeightCache
from fastweights.hf.configuration import FastWeightConfig
from fastweights.layers.positions import SinusoidalPositions, frequencies
from fastweights.models.language_model import LanguageModel


class FastWeightForCausalLM(PreTrainedModel, GenerationMixin):
    """A `LanguageModel` whose logits are its log probabilities."""

    config_class = FastWeightConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    _is_stateful = True
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

    @classmethod
    @override
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *model_args: Any, **kwargs: Any) -> Any:
        """As in transformers, but from safetensors only, and weights that do not fit are an error, not made up."""
        source, with_info = pretrained_model_name_or_path, kwargs.pop("output_loading_info", False)
        strict = not kwargs.get("ignore_mismatched_sizes", False)
        options = {"use_safetensors": True, **kwargs, "ignore_mismatched_sizes": True, "output_loading_info": True}
        try:
            loaded: Any = super().from_pretrained(source, *model_args, **options)
        except SafetensorError as error:
            raise ValueError(f"{source}: the file of weights is corrupted ({error})") from error
        model, info = loaded
        odd = sorted({*info["missing_keys"], *info["unexpected_keys"], *(key for key, *_ in info["mismatched_keys"])})
        if odd and strict:
            raise ValueError(
                f"{source}: the weights are those of another model than config.json describes; "
                f"{len(odd)} do not fit: {', '.join(odd[:4])}{', …' if len(odd) > 4 else ''}"
            )
        return (model, info) if with_info else model

    @override
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: FastWeightCache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, and not both")
        if past_key_values is not None and not isinstance(past_key_values, FastWeightCache):
            raise ValueError(
                f"past_key_values: expected a FastWeightCache, which holds the states of the layers, got "
                f"{type(past_key_values).__name__}"
            )
        embedded = self.model.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        steps = embedded.shape[1]
        mask = None if attention_mask is None else _last_steps(attention_mask, steps)
        states = None if past_key_values is None else past_key_values.states
        hidden, states = self.model.run(embedded, states, mask)
        if use_cache if use_cache is not None else self.config.use_cache and not self.training:
            past_key_values = past_key_values or FastWeightCache(len(self.model.blocks))
            past_key_values.store(states, steps)
        loss = None if labels is None else self._loss(hidden, labels)
        logits = self.model.log_probabilities(hidden[:, -logits_to_keep:] if logits_to_keep else hidden)
        return CausalLMOutputWithPast(loss, logits, past_key_values)  # type: ignore[arg-type]

    def _loss(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """The mean over labels that are not -100, each predicted from the positions before it."""
        targets = labels[:, 1:]
        counted = targets != -100
        losses = self.model.losses(hidden[:, :-1], targets.masked_fill(~counted, 0))
        return losses[counted].mean()

    @override
    def get_input_embeddings(self) -> nn.Module:
        return self.model.embedding

    @override
    def get_output_embeddings(self) -> None:
        return None

    @classmethod
    @override
    def _supports_default_dynamic_cache(cls) -> bool:
        return False

    @override
    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """The layers initialise themselves; what is not saved with the weights is computed again."""
        if isinstance(module, SinusoidalPositions):
            init.copy_(module.frequencies, frequencies(2 * module.frequencies.numel()))


def _last_steps(attention_mask: Tensor | dict[str, Tensor], steps: int) -> Tensor:
    """The part of a mask over all positions so far that belongs to the positions given now."""
    if isinstance(attention_mask, dict):
        attention_mask = next(iter(attention_mask.values()))
    if attention_mask.dim() != 2:
        raise ValueError(f"attention_mask: expected shape (batch, positions), got {tuple(attention_mask.shape)}")
    return attention_mask[:, attention_mask.shape[1] - steps :].bool()


def register() -> None:
    """Make `AutoConfig` and `AutoModelForCausalLM` know the model; calling it again changes nothing."""
    AutoConfig.register(FastWeightConfig.model_type, FastWeightConfig, exist_ok=True)
    AutoModelForCausalLM.register(FastWeightConfig, FastWeightForCausalLM, exist_ok=True)
