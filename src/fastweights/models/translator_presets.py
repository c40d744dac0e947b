"""The translation models of Tables 1 and 6 by name: a size, and the attention that stands in all three places.

`big-dpfp2` is the paper's model with DPFP ν = 2, `cpu-performer-m64` a small one with m = 64 random features;
`cpu-dpfp2-delta` has the delta rule in the decoder's self-attention and the sum rule elsewhere.
"""

import re
from dataclasses import replace

from fastweights.feature_maps import DPFP, EluPlusOne, Favor, FeatureMap
from fastweights.memory import AttentionNormalisation, NoNormalisation
from fastweights.models.attention import AttentionConfig, FastWeightAttentionConfig, SoftmaxAttentionConfig
from fastweights.models.translator import TranslatorConfig
from fastweights.update_rules import DeltaRule, SumRule

TRANSLATOR_SIZES: dict[str, TranslatorConfig] = {
    # "transformer_vaswani_wmt_en_de_big" of the recipe; heads of 64.
    "big": TranslatorConfig(
        vocabulary_size=32_768,
        model_dim=1024,
        num_heads=16,
        encoder_layers=6,
        decoder_layers=6,
        feed_forward_dim=4096,
        dropout=0.3,
    ),
    # Heads of 32: half the d_dot of the paper for the same ν.
    "cpu": TranslatorConfig(
        vocabulary_size=4000,
        model_dim=128,
        num_heads=4,
        encoder_layers=2,
        decoder_layers=2,
        feed_forward_dim=256,
        dropout=0.2,
    ),
}

TABLE_1 = {
    "big": ("standard", "linear", "performer-m32", "performer-m128", "performer-m256", "dpfp2", "dpfp4"),
    "cpu": (
        "standard", "linear", "performer-m16", "performer-m64", "performer-m128", "dpfp1", "dpfp2", "dpfp4",
        "dpfp2-delta",
    ),
}  # fmt: skip
"""The models of the table at each size; at the small one with DPFP-1 and the delta rule."""

POSSIBLE = "standard, linear, performer-mM or dpfpN, most of them also with -delta"


def translator_named(name: str, vocabulary_size: int | None = None) -> TranslatorConfig:
    """A model by its name, with the vocabulary of the data; a ValueError says how names are made."""
    size, _, kind = name.partition("-")
    found = re.fullmatch(r"(standard|linear|performer-m([1-9]\d*)|dpfp([1-9]\d*))(-delta)?", kind)
    if size not in TRANSLATOR_SIZES or found is None or kind == "standard-delta":
        raise ValueError(
            f"preset: unknown translation model {name!r}; possible: {', '.join(TRANSLATOR_SIZES)} followed by "
            f"-{POSSIBLE}, for instance cpu-dpfp2-delta"
        )
    config = TRANSLATOR_SIZES[size]
    if vocabulary_size is not None:
        config = replace(config, vocabulary_size=vocabulary_size)
    _, features, shifts, delta = found.groups()
    if kind == "standard":
        return _with(config, SoftmaxAttentionConfig())
    feature_map: FeatureMap = EluPlusOne()
    if features:
        # The literal map reads next to nothing at the usual size of keys; this one approximates softmax.
        feature_map = Favor(num_features=int(features), stabilised=True)
    elif shifts:
        feature_map = DPFP(nu=int(shifts))
    summed = FastWeightAttentionConfig(
        feature_map, SumRule(), NoNormalisation(), AttentionNormalisation(), read_scale=1.0
    )
    if not delta:
        return _with(config, summed)
    return replace(
        _with(config, summed), decoder_attention=FastWeightAttentionConfig(feature_map, DeltaRule(), read_scale=1.0)
    )


def _with(config: TranslatorConfig, attention: AttentionConfig) -> TranslatorConfig:
    return replace(config, encoder_attention=attention, decoder_attention=attention, cross_attention=attention)
