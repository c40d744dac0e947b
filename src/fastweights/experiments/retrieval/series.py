"""How each model and rule of the retrieval experiments looks in every figure."""

from fastweights.experiments.retrieval.names import MODELS
from fastweights.reporting.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Series

CAPACITY = {
    "softmax": Series("softmax", BLACK, "o"),
    "elu": Series("Linear (ELU+1)", ORANGE, "s"),
    "dpfp1": Series("DPFP-1", SKY, "D"),
    "dpfp2": Series("DPFP-2", BLUE, "^"),
    "dpfp3": Series("DPFP-3", GREEN, "v"),
    "favor64": Series("FAVOR+ 64", VERMILION, "P", "--"),
    "favor128": Series("FAVOR+ 128", PURPLE, "X", "--"),
    "favor512": Series("FAVOR+ 512", GREY, "*", "--"),
    "favor128-stabilised": Series("FAVOR+ 128, stabilised", PURPLE, "X", "-"),
}
"""Models of the capacity experiment, in the order of the legend."""

DETERMINISTIC = ("elu", "dpfp1", "dpfp2", "dpfp3")
"""Maps without random features: for these the rank bound is what decides."""


def feature_dim(model: str, key_dim: int = 64) -> int | None:
    """d_dot of a model (Table 6); none for softmax attention, which keeps every key."""
    feature_map = MODELS[model]
    return None if feature_map is None else feature_map.feature_dim(key_dim)


OVERWRITING = {
    ("dpfp1", "delta"): Series("DPFP-1, delta rule", SKY, "D"),
    ("dpfp2", "delta"): Series("DPFP-2, delta rule", BLUE, "^"),
    ("elu", "delta"): Series("Linear, delta rule", ORANGE, "s"),
    ("dpfp1", "sum"): Series("DPFP-1, sum rule", SKY, "D", "--"),
    ("dpfp2", "sum"): Series("DPFP-2, sum rule", BLUE, "^", "--"),
    ("elu", "sum"): Series("Linear, sum rule", ORANGE, "s", "--"),
    ("dpfp1", "schlag2021"): Series("Schlag (2021) with DPFP-1", VERMILION, "P", "-."),
    ("tanh", "schlag2021"): Series("Schlag (2021)", PURPLE, "X", "-."),
    ("dpfp1", "schlag2021-nolayernorm"): Series("Schlag (2021) with DPFP-1, no layer norm", VERMILION, "P", ":"),
    ("tanh", "schlag2021-nolayernorm"): Series("Schlag (2021), no layer norm", PURPLE, "X", ":"),
}
"""Pairs of feature map and rule of the overwriting experiment."""
