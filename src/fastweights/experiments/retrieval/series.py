"""How each model and rule looks in every figure: colours of Okabe and Ito, told apart with any colour vision."""

from dataclasses import dataclass
from typing import Any

from fastweights.feature_maps import DPFP, EluPlusOne, Favor, FeatureMap

BLACK, GREY = "#000000", "#7a7a7a"
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"


@dataclass(frozen=True)
class Series:
    """Label, colour, marker and line of one model under one rule."""

    label: str
    colour: str
    marker: str
    line: str = "-"

    def ours(self) -> dict[str, Any]:
        """How our runs are drawn."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.line,
            "label": self.label,
            "markeredgecolor": "white",
            "markeredgewidth": 0.6,
            "zorder": 3,
        }

    def published(self) -> dict[str, Any]:
        """How the published runs are drawn: the same colour, thin, behind ours."""
        return {
            "color": self.colour,
            "linestyle": self.line,
            "linewidth": 0.9,
            "alpha": 0.55,
            "zorder": 2,
        }


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

MAPS: dict[str, FeatureMap] = {
    "elu": EluPlusOne(),
    "dpfp1": DPFP(1),
    "dpfp2": DPFP(2),
    "dpfp3": DPFP(3),
    "favor64": Favor(64),
    "favor128": Favor(128),
    "favor512": Favor(512),
    "favor128-stabilised": Favor(128, stabilised=True),
}
DETERMINISTIC = ("elu", "dpfp1", "dpfp2", "dpfp3")
"""Maps without random features: for these the rank bound is what decides."""


def feature_dim(model: str, key_dim: int = 64) -> int | None:
    """d_dot of a model (Table 6); none for softmax attention, which keeps every key."""
    return MAPS[model].feature_dim(key_dim) if model in MAPS else None


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
