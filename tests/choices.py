"""Every layer that the tables allow: rule × map × normalisation × attention normalisation, new entries included."""

import math
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from fastweights.feature_maps import DPFP, FEATURE_MAPS, Favor, FeatureMap
from fastweights.layers import FastWeightAttention
from fastweights.memory import BACKENDS, NORMALISATIONS, AttentionNormalisation, Normalisation, backends
from fastweights.update_rules import UPDATE_RULES, LinearRule, UpdateRule

KEY_DIM = 3

RULES = [cls() for cls in UPDATE_RULES.values()]
MAPS = [
    *(cls() for cls in FEATURE_MAPS.values()),
    DPFP(nu=2),
    Favor(num_features=5, kind="relu"),
    Favor(num_features=7, stabilised=True),
]
NORMALISING = [cls() for cls in NORMALISATIONS.values()]
ATTENTION = [None, AttentionNormalisation(), AttentionNormalisation(retrieval=False)]


@dataclass(frozen=True)
class Choice:
    """One choice of each kind."""

    rule: UpdateRule
    feature_map: FeatureMap
    normalisation: Normalisation
    attention: AttentionNormalisation | None

    def __str__(self) -> str:
        attention = {None: "none", True: "full", False: "output"}[self.attention and self.attention.retrieval]
        return f"{self.rule}-{self.feature_map}-{type(self.normalisation).__name__}-attention={attention}"

    def layer(self, model_dim: int = 8, num_heads: int = 2, value_dim: int = 4, **more: object) -> FastWeightAttention:
        """A layer with its random features fixed; a ValueError if the choices do not go together."""
        torch.manual_seed(0)
        return FastWeightAttention(
            model_dim,
            num_heads,
            key_dim=KEY_DIM,
            value_dim=value_dim,
            feature_map=self.feature_map,
            update_rule=self.rule,
            normalisation=self.normalisation,
            attention_normalisation=self.attention or False,
            **more,
        ).eval()

    def backends(self, dtype: torch.dtype = torch.float32) -> list[str]:
        """The backends that can run it here."""
        if not isinstance(self.rule, LinearRule):
            return ["recurrent"]
        available = [name for name, status in backends().items() if status.available]
        return [name for name in available if BACKENDS[name].cannot_serve(torch.device("cpu"), dtype) is None]


def _goes_together(choice: Choice) -> bool:
    try:
        choice.layer()
    except ValueError:
        return False
    return True


CHOICES = [choice for each in product(RULES, MAPS, NORMALISING, ATTENTION) if _goes_together(choice := Choice(*each))]


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """|x - y| / |y|, 0 where both are nothing."""
    difference = torch.linalg.vector_norm(actual.double() - expected.double()).item()
    scale = torch.linalg.vector_norm(expected.double()).item()
    return 0.0 if difference == 0 else difference / scale if scale else math.inf
