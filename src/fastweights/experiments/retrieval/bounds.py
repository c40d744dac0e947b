"""Bounds on the loss ½|v - v̂|² before anything is trained; derivations in docs/retrieval.md."""

import math


def rank_bound(feature_dim: int, num_keys: int) -> float:
    """½ (1 - d_dot / S): S one-hot values read through a matrix of rank d_dot, averaged over all keys."""
    return max(0.0, 0.5 * (1 - feature_dim / num_keys))


def order_blind_floor(num_keys: int, length: int) -> float:
    """½ (1 - 1/S) E[(n - 1) / n | n ≥ 1]  with  n ~ Binomial(L, 1/S), the number of times a key was written.

    A rule that forgets the order of its writes can at best answer with the average of a key's values.
    """
    share = 1 / num_keys
    written = 1 - (1 - share) ** length
    expected = 0.0
    chance = length * share * (1 - share) ** (length - 1)
    for times in range(1, length + 1):
        expected += chance * (times - 1) / times
        chance *= (length - times) / (times + 1) * share / (1 - share)
    return 0.5 * (1 - share) * expected / written


def layer_norm_bound(num_keys: int) -> float:
    """½ (1 + S - 2 √(S - 1)): the best that a read of zero mean and unit variance over S components can do."""
    return 0.5 * (1 + num_keys - 2 * math.sqrt(num_keys - 1))


def layer_norm_floor(num_keys: int) -> float:
    """1 / (2S): what remains of the mean even if the read exploits the epsilon of the layer normalisation.

    A read of zero mean is at distance of at least 1/√S from a one-hot value, so no stopping loss of 0.001 is in reach
    below S = 500.
    """
    return 0.5 / num_keys
