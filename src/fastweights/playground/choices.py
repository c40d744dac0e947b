"""The memories that the page can show: a rule, a feature map and a normalisation, each by its name."""

from dataclasses import dataclass
from functools import cached_property

from fastweights.config import unknown
from fastweights.feature_maps import DPFP, FEATURE_MAPS, FeatureMap
from fastweights.layers.attention.choices import refuse_what_does_not_go_together
from fastweights.layers.feature_projection import FeatureProjection
from fastweights.memory import NORMALISATIONS, AttentionNormalisation, NoNormalisation, Normalisation
from fastweights.update_rules import UPDATE_RULES, DecayedSumRule, RetNetDecay, UpdateRule

PLAYED_RULES: dict[str, UpdateRule] = {
    # A write of the page has one key and one value; a step of `delta-product` has several.
    name: DecayedSumRule(RetNetDecay()) if name == "decayed-sum" else kind()
    for name, kind in UPDATE_RULES.items()
    if kind().writes_per_step == 1
}
"""Every rule with one write per step. The page sets the gates itself, so that of a decay only its name matters."""
PLAYED_MAPS: dict[str, FeatureMap] = {
    **{name: kind() for name, kind in FEATURE_MAPS.items() if name not in ("dpfp", "favor")},
    **{f"dpfp-{nu}": DPFP(nu) for nu in (1, 2, 3)},
}
"""Every map without random features."""
ATTENTION = "attention"
NORMALISED: dict[str, Normalisation] = {
    **{name: kind() for name, kind in NORMALISATIONS.items()},
    ATTENTION: NoNormalisation(),
}
"""The normalisations of keys; under `attention` they stay as they are, and reads are divided by z·q."""


@dataclass(frozen=True)
class MemoryChoice:
    """One memory of the page; a ValueError says what does not exist or does not go together."""

    rule: str = "delta"
    feature_map: str = "identity"
    normalisation: str = "l2"

    def __post_init__(self) -> None:
        for field, table in (("rule", PLAYED_RULES), ("feature_map", PLAYED_MAPS), ("normalisation", NORMALISED)):
            name = getattr(self, field)
            if name not in table:
                raise ValueError(f"{field}: {unknown('name', str(name), table)}")

    @property
    def name(self) -> str:
        """As a heading."""
        return f"{self.rule} · {self.feature_map} · {self.normalisation}"

    @property
    def update_rule(self) -> UpdateRule:
        return PLAYED_RULES[self.rule]

    @cached_property
    def attention_normalisation(self) -> AttentionNormalisation | None:
        return (
            AttentionNormalisation() if self.normalisation == ATTENTION or self.update_rule.needs_normaliser else None
        )

    def mapping(self, key_dim: int) -> FeatureProjection:
        """φ' for keys of so many components, as a layer would build it."""
        mapping = FeatureProjection(key_dim, PLAYED_MAPS[self.feature_map], NORMALISED[self.normalisation])
        refuse_what_does_not_go_together(mapping, self.update_rule, self.attention_normalisation)
        return mapping
