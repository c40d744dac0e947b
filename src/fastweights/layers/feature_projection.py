"""The feature map and the normalisation of a layer: the one place that keeps random features."""

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.feature_maps import FeatureMap
from fastweights.feature_maps.base import RandomFeatureMap
from fastweights.kernels.features import fused_features
from fastweights.kernels.native.attention import Definition, Masking, fused_attention
from fastweights.kernels.transforms import active_transform
from fastweights.memory import Normalisation
from fastweights.shapes import Projection, Vectors


class FeatureProjection(nn.Module):
    """φ'(x) for the keys and queries of a layer.

    Random features are a buffer, saved with the model; keys and queries share them. `redraw` replaces them in training
    mode only, and not inside torch.func.
    """

    projection: Projection | None

    def __init__(self, key_dim: int, feature_map: FeatureMap, normalisation: Normalisation) -> None:
        super().__init__()
        self.key_dim, self.feature_map, self.normalisation = key_dim, feature_map, normalisation
        self.feature_dim = feature_map.feature_dim(key_dim)
        drawn = feature_map.draw(key_dim) if isinstance(feature_map, RandomFeatureMap) else None
        self.register_buffer("projection", drawn)

    @property
    def keeps_scale_apart(self) -> bool:
        """Whether keys come with log scales that the memory has to follow (memory/rescaling.py)."""
        stabilised = getattr(self.feature_map, "stabilised", False)
        return bool(stabilised) and not self.normalisation.forgets_scale

    def resample(self, generator: torch.Generator | None = None) -> None:
        """Draw new random features; a map without any stays as it is."""
        if self.projection is not None:
            assert isinstance(self.feature_map, RandomFeatureMap)
            drawn = self.feature_map.draw(self.key_dim, generator, self.projection.device)
            # A new tensor: an earlier forward pass may have saved the old one for its backward pass.
            self.projection = drawn.to(self.projection.dtype)

    def redraw(self) -> None:
        """Random features for a new mini-batch (Sec. 5.3).

        Inside torch.func's grad, vmap and the like the features stay: the buffer would keep a tensor of the transform,
        which is of no use after it.
        """
        if self.training and active_transform() == "none":
            self.resample()

    @override
    def forward(self, x: Vectors, projection: Projection | None = None) -> tuple[Tensor, Tensor | None]:
        """The mapped and normalised vectors, and their log scales if the memory has to follow these.

        An earlier draw of the random features may be given, for what was computed with it.
        """
        projection = self.projection if projection is None else projection
        if projection is None:
            fused = fused_features(self.feature_map.kernel(x.shape[-1]), self.normalisation.kernel, x)
            if fused is not None:
                return fused, None
            # In at least float32, as compiled maps do: what rounding leaves of a feature should not be normalised.
            features = self.feature_map(x.to(torch.promote_types(x.dtype, torch.float32)))
            return self.normalisation(features).to(x.dtype), None
        assert isinstance(self.feature_map, RandomFeatureMap)
        scaled = self.feature_map.log_scaled(x, projection)
        if scaled is None:
            return self.normalisation(self.feature_map(x, projection)), None
        features, log_scale = scaled
        return self.normalisation(features), log_scale if self.keeps_scale_apart else None

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, masking: Masking, definition: Definition
    ) -> Tensor | None:
        """Normalised attention of unmapped queries and keys by a compiled kernel; None if there is none for them."""
        if self.normalisation.kernel != "none":
            return None
        kernel = self.feature_map.attention_kernel(self.key_dim)
        return fused_attention(kernel, (queries, keys, values), masking, self.projection, definition)

    @override
    def extra_repr(self) -> str:
        return f"{self.feature_map}, {self.normalisation}, {self.key_dim} -> {self.feature_dim}"
