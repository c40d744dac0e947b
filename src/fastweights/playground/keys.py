"""Keys with colours for names, as similar to each other as one likes.

x_i = √s u_0 + √(1 - s) u_i        u_0, u_1, … orthonormal, so that |x_i| = 1 and cos(x_i, x_j) = s
"""

from functools import cache

import torch

from fastweights.shapes import Keys

COLOURS = {
    "red": "#d62728",
    "orange": "#ff7f0e",
    "yellow": "#e5c100",
    "green": "#2ca02c",
    "cyan": "#17becf",
    "blue": "#1f5fd0",
    "purple": "#9467bd",
    "brown": "#8c564b",
}
KEY_DIM = 16
"""Components of a key, before the feature map."""


@cache
def _directions() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(KEY_DIM, len(COLOURS) + 1, generator=generator, dtype=torch.float64)
    return torch.linalg.qr(drawn).Q.T


def colour_keys(similarity: float) -> Keys:
    """One key for every colour, all pairs with the cosine `similarity`, from 0 (orthogonal) to 1 (equal)."""
    if not 0 <= similarity <= 1:
        raise ValueError(f"similarity: expected a number from 0 to 1, got {similarity}")
    shared, own = _directions()[:1], _directions()[1:]
    return (similarity**0.5 * shared + (1 - similarity) ** 0.5 * own)[None, None]
