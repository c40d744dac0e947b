"""A step of a layer in two calls of the library, for generation; None wherever anything is special about the layer.

Whoever changes a layer from outside (hooks, replaced or parametrised modules, low precision) gets the general path,
which also reports errors.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fastweights.kernels.features import NUMBERS, MapKernel
from fastweights.kernels.native import generation
from fastweights.kernels.native.generation import MAPS, MOST_ROWS, FeedForwardWeights, StepShape
from fastweights.layers.exact.dropout import Dropout
from fastweights.layers.feed_forward import FeedForward
from fastweights.memory import FastWeightState
from fastweights.update_rules import DeltaRule, SumRule
from fastweights.update_rules.gates import WriteStrength

if TYPE_CHECKING:
    from fastweights.layers.attention.fast_weight import FastWeightAttention
    from fastweights.layers.block import Block


def attention_step(
    layer: "FastWeightAttention", x: Tensor, state: FastWeightState | None
) -> tuple[Tensor, FastWeightState] | None:
    """`forward` of a layer for a single step of few sequences."""
    if x.dim() != 3 or x.shape[1] != 1 or not 0 < x.shape[0] <= MOST_ROWS or type(state) is not FastWeightState:
        return None
    if not _plain(layer.projection, layer.output):
        return None
    shape = _shape(layer)
    if shape is None:
        return None
    learned = dict(layer.gate_parameters.named_parameters()).get("beta.bias")
    projection, output, weights = layer.projection.weight, layer.output.weight, state.weights
    expected = (x.shape[0], layer.num_heads, layer.value_dim, layer.mapping.feature_dim)
    if x.shape[2] != layer.model_dim or weights.shape != expected or state.normaliser is not None:
        return None
    if not generation.serves((x, projection, output, learned, weights), x.dtype):
        return None
    found = generation.attention_step(shape, x, projection, output, learned, weights)
    return None if found is None else (found[0], FastWeightState(found[1], None, state.steps + 1))


def ordinary_kernel(layer: "FastWeightAttention") -> tuple[MapKernel, int] | None:
    """The compiled map of a layer as the paper has it and its normalisation; None if anything else belongs to it."""
    ordinary = layer.causal and layer.convolution is None and layer.output_gate is None and layer.skip is None
    if not ordinary or layer.num_key_heads != layer.num_heads or layer.attention_normalisation is not None:
        return None
    if type(layer.update_rule) not in (DeltaRule, SumRule) or layer.backend not in ("auto", "native"):
        return None
    mapping = layer.mapping
    kernel, normalise = mapping.feature_map.kernel(mapping.key_dim), mapping.normalisation.kernel
    return None if kernel is None or normalise is None else (kernel, NUMBERS[normalise])


def largest_strength(layer: "FastWeightAttention") -> float | None:
    """The largest β of the layer's rule; None if the rule has none."""
    return next((gate.largest for gate in layer.update_rule.gates if isinstance(gate, WriteStrength)), None)


def _shape(layer: "FastWeightAttention") -> StepShape | None:
    """What the library has to know of a layer, if it can take its steps."""
    found = ordinary_kernel(layer)
    if found is None or found[0].compiled.name not in MAPS:
        return None
    kernel, normalise = found
    return StepShape(
        *(layer.num_heads, layer.key_dim, layer.value_dim, MAPS.index(kernel.compiled.name)),
        *(kernel.parameters[0] if kernel.parameters else 0, normalise, largest_strength(layer), layer.read_scale),
    )


def feed_forward_step(block: "Block", x: Tensor, read: Tensor) -> Tensor | None:
    """What follows attention in a block, for a single step of few sequences."""
    feed_forward = block.feed_forward
    if type(feed_forward) is not FeedForward or x.shape[1] != 1 or not 0 < x.shape[0] <= MOST_ROWS:
        return None
    first, activation, dropout, second, last = feed_forward.layers
    norms = (block.attention_norm, block.feed_forward_norm)
    if not (_plain(feed_forward, feed_forward.layers, first, second, *norms) and type(activation) is nn.ReLU):
        return None
    if any(type(part) is not Dropout or (part.training and part.p) for part in (dropout, last, block.dropout)):
        return None
    tensors = FeedForwardWeights(
        *(tensor for norm in norms for tensor in (norm.weight, norm.bias)),
        *(tensor for layer in (first, second) for tensor in (layer.weight, layer.bias)),
    )
    if not generation.serves((x, read, *tensors), x.dtype):
        return None
    epsilons = (block.attention_norm.eps, block.feed_forward_norm.eps)
    return generation.feed_forward_step(x, read, tensors, epsilons, block.pre_norm)


def _plain(*modules: nn.Module) -> bool:
    """Whether modules are torch's own, with no hook that would not be called."""
    if torch.nn.modules.module._global_forward_hooks or torch.nn.modules.module._global_forward_pre_hooks:
        return False
    for module in modules:
        if type(module) not in (nn.Linear, nn.LayerNorm, nn.Sequential, FeedForward):
            return False
        if module._forward_hooks or module._forward_pre_hooks:
            return False
    return True
