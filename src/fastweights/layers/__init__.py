"""Layers, all of the form forward(x, state, mask) -> (y, state)."""

from fastweights.layers.block import Block
from fastweights.layers.fast_weight_attention import FastWeightAttention, FastWeightCrossAttention
from fastweights.layers.feed_forward import FeedForward
from fastweights.layers.positions import SinusoidalPositions
from fastweights.layers.softmax_attention import KeyValueState, SoftmaxAttention

__all__ = [
    "Block",
    "FastWeightAttention",
    "FastWeightCrossAttention",
    "FeedForward",
    "KeyValueState",
    "SinusoidalPositions",
    "SoftmaxAttention",
]
