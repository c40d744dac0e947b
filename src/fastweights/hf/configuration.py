"""The configurations of our models as Hugging Face keeps them: in config.json, beside the weights."""

from typing import Any

from transformers import PreTrainedConfig

from fastweights.models.language_model import LanguageModelConfig
from fastweights.models.translator import TranslatorConfig


class _Configuration(PreTrainedConfig):
    """A configuration with annotated fields that `__post_init__` completes, in every version of transformers 5."""

    if not hasattr(PreTrainedConfig, "__post_init__"):
        # The first versions of transformers 5 make a configuration by `__init__` alone.

        def __init__(self, **kwargs: Any) -> None:
            annotated = {name: kwargs.pop(name, getattr(type(self), name)) for name in type(self).__annotations__}
            super().__init__(**annotated, **kwargs)
            self.__post_init__(**kwargs)

        def __post_init__(self, **kwargs: Any) -> None:
            pass


class FastWeightConfig(_Configuration):
    """A `LanguageModelConfig` as plain data under `language_model`, and the fields that Hugging Face expects."""

    model_type = "fastweights"
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012  named and typed by transformers

    language_model: dict[str, Any] | None = None
    use_cache: bool = True
    # There is one table for both ends of the model, not two tables to tie.
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        alone = self.language_model is None
        if self.language_model is None:
            self.language_model = LanguageModelConfig(vocabulary_size=267_735).to_dict()
        super().__post_init__(**kwargs)
        # Set last: `language_model` decides, not the copies in a file.
        config = self.to_language_model_config()
        _set_copies(
            self,
            "language_model",
            kwargs if alone else {},
            {
                "vocab_size": config.vocabulary_size,
                "hidden_size": config.model_dim,
                "num_attention_heads": config.num_heads,
                "num_hidden_layers": config.num_layers,
            },
        )

    @classmethod
    def of(cls, config: LanguageModelConfig, **others: Any) -> "FastWeightConfig":
        """The Hugging Face form of a configuration; `others` are fields such as eos_token_id."""
        return cls(language_model=config.to_dict(), **others)

    def to_language_model_config(self) -> LanguageModelConfig:
        """The configuration that `language_model` describes."""
        assert self.language_model is not None
        return LanguageModelConfig.from_dict(self.language_model)


class FastWeightTranslationConfig(_Configuration):
    """The configuration of a translator under `translator`, and what Hugging Face asks of an encoder-decoder.

    The special symbols are those of `data.translation_tokeniser`; the decoder starts with `<s>`.
    """

    model_type = "fastweights-translation"
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012  named and typed by transformers

    translator: dict[str, Any] | None = None
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = False
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 1

    def __post_init__(self, **kwargs: Any) -> None:
        alone = self.translator is None
        if self.translator is None:
            self.translator = TranslatorConfig(vocabulary_size=32_768).to_dict()
        super().__post_init__(**kwargs)
        # After what a file says about them: only `translator` decides.
        config = self.to_translator_config()
        _set_copies(
            self,
            "translator",
            kwargs if alone else {},
            {
                "vocab_size": config.vocabulary_size,
                "hidden_size": config.model_dim,
                "num_attention_heads": config.num_heads,
                "num_hidden_layers": config.decoder_layers,
            },
        )

    @classmethod
    def of(cls, config: TranslatorConfig, **others: Any) -> "FastWeightTranslationConfig":
        """The Hugging Face form of a configuration; `others` are fields such as eos_token_id."""
        return cls(translator=config.to_dict(), **others)

    def to_translator_config(self) -> TranslatorConfig:
        """Our own form of it."""
        assert self.translator is not None
        return TranslatorConfig.from_dict(self.translator)


def _set_copies(config: PreTrainedConfig, source: str, given: dict[str, Any], copies: dict[str, int]) -> None:
    """Set the fields that transformers expects; a ValueError if one was given alone, and would have no effect."""
    for name, value in copies.items():
        if given.get(name, value) != value:
            raise ValueError(
                f"{name}: it has no effect by itself, `{source}` decides and says {value}; "
                f"possible: {type(config).__name__}.of(config) with a configuration of this library"
            )
        setattr(config, name, value)
