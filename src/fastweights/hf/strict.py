"""What both Hugging Face models do that transformers does not: nothing is made up and nothing is silently ignored."""

import inspect
from typing import Any

from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import PreTrainedModel
from typing_extensions import override

IGNORED = {"cache_position", "token_type_ids"}
"""What versions of transformers and tokenizers hand over unasked; nothing depends on it here."""


class StrictModel(PreTrainedModel):
    """A model with states of its own: weights that do not fit and arguments that have no effect are errors."""

    _is_stateful = True
    supports_gradient_checkpointing = True

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

    def refuse_what_would_be_ignored(self, output_attentions: bool | None, others: dict[str, Any]) -> None:
        """A ValueError for attention weights, which there are none of, and for arguments that `forward` lacks."""
        if self.config.output_attentions if output_attentions is None else output_attentions:
            raise ValueError("output_attentions: the layers keep no attention weights; possible: output_hidden_states")
        unknown = sorted(name for name, value in others.items() if value is not None and name not in IGNORED)
        if unknown:
            *possible, _ = inspect.signature(self.forward).parameters
            raise ValueError(
                f"forward: unknown argument {', '.join(unknown)}; possible: {', '.join(possible)}; "
                f"positions are counted by attention_mask and the cache, and a row is one text"
            )

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False

    @override
    def get_output_embeddings(self) -> None:
        return None

    @override
    def _init_weights(self, module: nn.Module) -> None:
        """The layers initialise themselves."""


def newest_mask(attention_mask: Tensor | dict[str, Tensor], embedded: Tensor, seen: int) -> Tensor:
    """The part of a mask over all positions so far that belongs to the positions given now."""
    if isinstance(attention_mask, dict):
        attention_mask = next(iter(attention_mask.values()))
    batch, steps, _ = embedded.shape
    shape = tuple(attention_mask.shape)
    if len(shape) != 2 or shape[0] != batch or not steps <= shape[1] <= seen + steps:
        cached = f", or {(batch, seen + steps)} with the {seen} in the cache" if seen else ""
        raise ValueError(
            f"attention_mask: expected shape {(batch, steps)}, a column for each position{cached}, got {shape}"
        )
    return attention_mask[:, shape[1] - steps :].bool()
