"""Layers, all of the form forward(x, state, mask) -> (y, state)."""

from fastweights.layers.attention.cross import FastWeightCrossAttention
from fastweights.layers.attention.fast_weight import FastWeightAttention
from fastweights.layers.attention.multihead import MultiheadFastWeights
from fastweights.layers.attention.output_gate import OUTPUT_GATES, GatedNorm, GateThenNorm, OutputGate
from fastweights.layers.attention.short_convolution import ShortConvolution
from fastweights.layers.attention.softmax import KeyValueState, SoftmaxAttention
from fastweights.layers.attention.softmax_cross import SoftmaxCrossAttention
from fastweights.layers.block import Block
from fastweights.layers.decoder_block import DecoderBlock
from fastweights.layers.feed_forward import FeedForward
from fastweights.layers.positions import SinusoidalPositions

__all__ = [
    "OUTPUT_GATES",
    "Block",
    "DecoderBlock",
    "FastWeightAttention",
    "FastWeightCrossAttention",
    "FeedForward",
    "GateThenNorm",
    "GatedNorm",
    "KeyValueState",
    "MultiheadFastWeights",
    "OutputGate",
    "ShortConvolution",
    "SinusoidalPositions",
    "SoftmaxAttention",
    "SoftmaxCrossAttention",
]
