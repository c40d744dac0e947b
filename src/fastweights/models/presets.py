"""The language models of Tables 2-5 by name: a size, an attention, and what is changed about them.

`small-linear-delta` is the small configuration with ELU+1 and the delta rule; `-nopos` drops the positions,
`-attnnorm` adds attention normalisation (`-outnorm` of the output only), `-carried` keeps the memory from one segment
to the next.
"""

import difflib
from dataclasses import dataclass, replace

from fastweights.feature_maps import DPFP, EluPlusOne, Favor, FeatureMap
from fastweights.memory import AttentionNormalisation, NoNormalisation
from fastweights.models.attention import (
    AttentionConfig,
    FastWeightAttentionConfig,
    RelativeAttentionConfig,
    SoftmaxAttentionConfig,
)
from fastweights.models.language_model import LanguageModelConfig
from fastweights.update_rules import DeltaRule, SumRule


@dataclass(frozen=True)
class Preset:
    """A model and the recipe it is trained with; the vocabulary size is filled in from the data."""

    model: LanguageModelConfig
    segment_length: int
    batch_size: int
    max_steps: int
    warmup_steps: int
    learning_rate: float = 2.5e-4
    clip_norm: float = 0.25
    carried: bool = False


def _size(model_dim: int, num_heads: int, num_layers: int, feed_forward_dim: int) -> LanguageModelConfig:
    return LanguageModelConfig(
        vocabulary_size=267_735,
        model_dim=model_dim,
        num_heads=num_heads,
        num_layers=num_layers,
        feed_forward_dim=feed_forward_dim,
    )


SIZES: dict[str, Preset] = {
    "small": Preset(_size(128, 8, 16, 2048), segment_length=256, batch_size=96, max_steps=500_000, warmup_steps=2000),
    "medium": Preset(_size(256, 8, 16, 2048), segment_length=384, batch_size=56, max_steps=400_000, warmup_steps=2000),
    # Heads as in the small configuration, a quarter of its layers and of their width.
    "cpu": Preset(
        replace(_size(128, 8, 4, 512), cutoffs=(1000, 4000, 12_000)),
        segment_length=256,
        batch_size=16,
        max_steps=1250,
        warmup_steps=100,
        learning_rate=1e-3,
    ),
}


def _maps(size: Preset) -> dict[str, FeatureMap]:
    """The maps of Tables 2 and 5; the Performer of Table 2 has as many features as keys have components."""
    key_dim = size.model.model_dim // size.model.num_heads
    return {
        "linear": EluPlusOne(),
        "performer": Favor(num_features=key_dim // 2),
        "performer-wide": Favor(num_features=key_dim),
        "dpfp": DPFP(nu=1),
    }


def _attentions(size: Preset) -> dict[str, AttentionConfig]:
    attentions: dict[str, AttentionConfig] = {"transformer": SoftmaxAttentionConfig()}
    for name, feature_map in _maps(size).items():
        # Linear Transformers divide by z·q (Eq. 19) and do not normalise keys; the delta rule does the opposite.
        attentions[f"{name}-sum"] = FastWeightAttentionConfig(
            feature_map, SumRule(), NoNormalisation(), AttentionNormalisation()
        )
        delta = FastWeightAttentionConfig(feature_map, DeltaRule())
        attentions[f"{name}-delta"] = delta
        attentions[f"{name}-delta-attnnorm"] = replace(delta, attention_normalisation=AttentionNormalisation())
        attentions[f"{name}-delta-outnorm"] = replace(
            delta, attention_normalisation=AttentionNormalisation(retrieval=False)
        )
    return attentions


def _presets() -> dict[str, Preset]:
    presets = {}
    for size_name, size in SIZES.items():
        for name, attention in _attentions(size).items():
            preset = replace(size, model=replace(size.model, attention=attention))
            without_positions = replace(preset, model=replace(preset.model, positions=False))
            presets[f"{size_name}-{name}"] = preset
            presets[f"{size_name}-{name}-nopos"] = without_positions
            if isinstance(attention, FastWeightAttentionConfig):
                presets[f"{size_name}-{name}-nopos-carried"] = replace(without_positions, carried=True)
        presets[f"{size_name}-transformer-xl"] = replace(
            size,
            model=replace(size.model, attention=RelativeAttentionConfig(size.segment_length), positions=False),
            # The published run had half the steps and half the warm-up of the others.
            max_steps=size.max_steps // 2 if size_name != "cpu" else size.max_steps,
            warmup_steps=size.warmup_steps // 2 if size_name != "cpu" else size.warmup_steps,
            carried=True,
        )
    return presets


PRESETS: dict[str, Preset] = _presets()

VARIANTS = ("attnnorm", "outnorm", "nopos", "carried")
"""What a name may end in, in this order."""


def preset_named(name: str) -> Preset:
    """A preset by its name; a ValueError says how names are made."""
    if name in PRESETS:
        return PRESETS[name]
    attentions = {known.partition("-")[2]: None for known in PRESETS if not set(known.split("-")) & set(VARIANTS)}
    close = difflib.get_close_matches(name, PRESETS, n=1)
    raise ValueError(
        f"preset: unknown name {name!r}; {f'did you mean {close[0]}? ' if close else ''}"
        f"possible: {', '.join(SIZES)} followed by -{', -'.join(attentions)}; "
        f"most of them also with -{', -'.join(VARIANTS)}, for instance cpu-linear-delta-nopos-carried"
    )
