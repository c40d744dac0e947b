"""A sequence in training as one node of autograd's graph; None wherever anything is special about the layer.

Losses and gradients are those of the general path, bit for bit, in float32 and float64. In low precision queries, keys
and values go into the memory in float32 at once, where the general path rounds mapped queries and keys first.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fastweights.kernels.native import library
from fastweights.kernels.native.sequence_layer import LayerShape, mix
from fastweights.layers.exact.single_step import largest_strength, ordinary_kernel
from fastweights.layers.feature_projection import FeatureProjection
from fastweights.memory import FastWeightState

if TYPE_CHECKING:
    from fastweights.layers.attention.fast_weight import FastWeightAttention


def training_sequence(
    layer: "FastWeightAttention", projected: Tensor, state: FastWeightState
) -> tuple[Tensor, FastWeightState] | None:
    """The reads of a layer, b h t v, and the state after them, from queries, keys, values and gates side by side."""
    if not (torch.is_grad_enabled() and projected.requires_grad) or library.needs_dispatcher(
        (projected, state.weights)
    ):
        return None
    if not _untouched(layer) or layer.gate_parameters:
        return None
    shape = _shape(layer)
    exact = torch.promote_types(projected.dtype, torch.float32)
    if shape is None or state.weights.dtype != exact or not shape.map.compiled.serves(state.weights):
        return None
    with torch.autocast("cpu", enabled=False):
        reads, weights = mix(projected.to(exact), state.weights, shape)
    return reads.to(projected.dtype), replace(state, weights=weights, steps=state.steps + projected.shape[1])


def _untouched(layer: "FastWeightAttention") -> bool:
    """Whether no method is overridden and no hook is called between the projections."""
    from fastweights.layers.attention.fast_weight import FastWeightAttention

    mapping = layer.mapping
    hooked = mapping._forward_hooks or mapping._forward_pre_hooks or mapping._backward_hooks
    hooked = (
        hooked or torch.nn.modules.module._global_forward_hooks or torch.nn.modules.module._global_forward_pre_hooks
    )
    return type(layer) is FastWeightAttention and type(mapping) is FeatureProjection and not hooked


def _shape(layer: "FastWeightAttention") -> LayerShape | None:
    found = ordinary_kernel(layer)
    if found is None:
        return None
    return LayerShape(layer.num_heads, layer.key_dim, layer.value_dim, *found, largest_strength(layer))
