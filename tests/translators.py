"""Small translators with every kind of attention, each alone and mixed, whose memories decide what they say."""

from dataclasses import replace

import torch

from fastweights.feature_maps import DPFP, EluPlusOne, Favor, FeatureMap
from fastweights.memory import AttentionNormalisation, NoNormalisation
from fastweights.models.attention import (
    AttentionConfig,
    FastWeightAttentionConfig,
    RelativeAttentionConfig,
    SoftmaxAttentionConfig,
)
from fastweights.models.translator import Translator, TranslatorConfig
from fastweights.update_rules import DeltaRule, FastWeightMemoryRule, SumRule


def summed(feature_map: FeatureMap) -> FastWeightAttentionConfig:
    """Linear attention as in the paper's translation models."""
    return FastWeightAttentionConfig(
        feature_map, SumRule(), NoNormalisation(), AttentionNormalisation(), read_scale=1.0
    )


SOFTMAX = SoftmaxAttentionConfig()
DELTA = FastWeightAttentionConfig(DPFP(1), DeltaRule(), read_scale=1.0)
SMALL = TranslatorConfig(vocabulary_size=40, model_dim=16, num_heads=2, feed_forward_dim=32)


def everywhere(attention: AttentionConfig) -> TranslatorConfig:
    return replace(SMALL, encoder_attention=attention, decoder_attention=attention, cross_attention=attention)


TRANSLATORS: dict[str, TranslatorConfig] = {
    "softmax": SMALL,
    "linear": everywhere(summed(EluPlusOne())),
    "dpfp2": everywhere(summed(DPFP(2))),
    "performer": everywhere(summed(Favor(8, stabilised=True))),
    "delta": everywhere(DELTA),
    "delta-attention-normalised": everywhere(replace(DELTA, attention_normalisation=AttentionNormalisation())),
    "delta-decoder": replace(everywhere(summed(DPFP(2))), decoder_attention=DELTA),
    "schlag2021": everywhere(FastWeightAttentionConfig(update_rule=FastWeightMemoryRule(), read_scale=1.0)),
    "relative-decoder": replace(SMALL, decoder_attention=RelativeAttentionConfig(memory_length=64)),
    "mixed": replace(SMALL, encoder_attention=summed(DPFP(1)), decoder_attention=DELTA),
    "pre-norm": replace(everywhere(summed(EluPlusOne())), pre_norm=True),
}


def translator(name: str, dtype: torch.dtype = torch.float32) -> Translator:
    """An evaluating model; what it reads from its memories weighs much, or a wrong memory would go unnoticed."""
    torch.manual_seed(0)
    model = Translator(TRANSLATORS[name]).to(dtype).eval()
    for parameter_name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=2.0 if "attention.output" in parameter_name else 0.4)
    return model
