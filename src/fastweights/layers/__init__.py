"""Layers, all of the form forward(x, state, mask) -> (y, state)."""

from fastweights.layers.attention.cross import FastWeightCrossAttention
from fastweights.layers.attention.fast_weight import FastWeightAttention
from fastweights.layers.attention.softmax import KeyValueState, SoftmaxAttention
from fastweights.layers.block import Block
from fastweights.layers.feed_forward import FeedForward
from fastweights.layers.positions import SinusoidalPositions

__all__ = [
    "Block",
    "FastWeightAttention",
    "FastWeightCrossAttention",
    "FeedForward",
    "KeyValueState",
    "SinusoidalPositions",
    "SoftmaxAttention",
]
