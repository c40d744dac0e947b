"""The attention of a model as a value: a configuration names it and a model builds it, once for every layer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import nn
from typing_extensions import override

from fastweights.config import Registries
from fastweights.feature_maps import DPFP, FEATURE_MAPS, FeatureMap
from fastweights.layers import (
    OUTPUT_GATES,
    FastWeightAttention,
    FastWeightCrossAttention,
    OutputGate,
    ShortConvolution,
    SoftmaxAttention,
    SoftmaxCrossAttention,
)
from fastweights.layers.attention.relative import RelativeAttention
from fastweights.memory import NORMALISATIONS, AttentionNormalisation, Normalisation, SumNormalisation
from fastweights.update_rules import DECAYS, UPDATE_RULES, Decay, DeltaRule, UpdateRule

Role = Literal["encoder", "decoder", "cross"]
"""Where an attention stands: it reads all of its own sequence, the past of it, or another sequence."""


@dataclass(frozen=True)
class AttentionConfig(ABC):
    """The attention of every layer of a model."""

    @abstractmethod
    def build(self, model_dim: int, num_heads: int, role: Role = "decoder") -> nn.Module:
        """A layer with `forward(x, state, mask) -> (y, state)`; cross-attention also has `write(source)`."""


@dataclass(frozen=True)
class FastWeightAttentionConfig(AttentionConfig):
    """A fast-weight memory: map, rule and normalisations, and the parts that later models add.

    Reads are scaled by 1/√d_key as in the published language models, or by `read_scale` if it is given: with attention
    normalisation reads are averages, and nothing has to be scaled.
    """

    feature_map: FeatureMap = DPFP(nu=1)  # noqa: RUF009  a frozen value
    update_rule: UpdateRule = DeltaRule()  # noqa: RUF009
    normalisation: Normalisation = SumNormalisation()  # noqa: RUF009
    attention_normalisation: AttentionNormalisation | None = None
    backend: str = "auto"
    read_scale: float | None = None
    convolution: ShortConvolution | None = None
    output_gate: OutputGate | None = None

    @override
    def build(self, model_dim: int, num_heads: int, role: Role = "decoder") -> nn.Module:
        if role != "decoder" and (self.convolution is not None or self.output_gate is not None):
            raise ValueError(
                f"attention: a short convolution or an output gate is for attention to the past, not for {role} "
                "attention; possible: the decoder's self-attention"
            )
        own = partial(
            FastWeightAttention,
            causal=role == "decoder",
            convolution=self.convolution,
            output_gate=self.output_gate,
        )
        layer = FastWeightCrossAttention if role == "cross" else own
        return layer(
            model_dim,
            num_heads,
            feature_map=self.feature_map,
            update_rule=self.update_rule,
            normalisation=self.normalisation,
            attention_normalisation=self.attention_normalisation,
            read_scale=(model_dim // num_heads) ** -0.5 if self.read_scale is None else self.read_scale,
            backend=self.backend,
        )


@dataclass(frozen=True)
class SoftmaxAttentionConfig(AttentionConfig):
    """Softmax attention: the standard Transformer."""

    @override
    def build(self, model_dim: int, num_heads: int, role: Role = "decoder") -> nn.Module:
        if role == "cross":
            return SoftmaxCrossAttention(model_dim, num_heads)
        return SoftmaxAttention(model_dim, num_heads, causal=role == "decoder")


@dataclass(frozen=True)
class RelativeAttentionConfig(AttentionConfig):
    """Relative attention with a memory of hidden vectors: Transformer-XL."""

    memory_length: int = 384

    @override
    def build(self, model_dim: int, num_heads: int, role: Role = "decoder") -> nn.Module:
        if role != "decoder":
            raise ValueError(
                f"attention: relative attention looks back along one sequence, so it cannot be {role} attention; "
                "possible: the decoder's self-attention"
            )
        return RelativeAttention(model_dim, num_heads, memory_length=self.memory_length)


ATTENTIONS: dict[str, type[AttentionConfig]] = {
    "fast-weight": FastWeightAttentionConfig,
    "softmax": SoftmaxAttentionConfig,
    "relative": RelativeAttentionConfig,
}

REGISTRIES: Registries = {
    FeatureMap: FEATURE_MAPS,
    UpdateRule: UPDATE_RULES,
    Decay: DECAYS,
    OutputGate: OUTPUT_GATES,
    Normalisation: NORMALISATIONS,
    AttentionConfig: ATTENTIONS,
}
"""What configurations name: maps, rules, normalisations and attentions."""
