"""Which maps, rules and normalisations go together in one layer."""

from fastweights.layers.feature_projection import FeatureProjection
from fastweights.memory import AttentionNormalisation
from fastweights.update_rules import LinearRule, UpdateRule


def refuse_what_does_not_go_together(
    mapping: FeatureProjection, rule: UpdateRule, attention: AttentionNormalisation | None
) -> None:
    """Raise a ValueError that says which choice does not fit the others, and what is possible instead."""
    feature_map, normalisation = mapping.feature_map, mapping.normalisation
    if attention is not None and not (feature_map.positive and normalisation.keeps_sign):
        signed = normalisation if feature_map.positive else feature_map
        raise ValueError(
            f"attention_normalisation: features of {signed} can be negative, so that z·q could vanish; "
            "possible: a map and a normalisation with positive features, or no attention normalisation and "
            "normalisation=L2Normalisation()"
        )
    if mapping.feature_dim < normalisation.fewest_features:
        raise ValueError(
            f"normalisation: {normalisation} leaves nothing of {mapping.feature_dim} feature; "
            f"possible: a larger key_dim, or a map with at least {normalisation.fewest_features} features"
        )
    divides_everything = attention is not None and attention.retrieval
    run = rule.with_attention_normalisation()
    follows_scale = divides_everything and isinstance(run, LinearRule) and run.follows_scale
    if mapping.keeps_scale_apart and not follows_scale:
        raise ValueError(
            f"feature_map: {feature_map} with {normalisation} needs a linear rule and "
            "attention_normalisation=True, which makes reads independent of the scale; SumNormalisation() and "
            "L2Normalisation() do so as well"
        )
