"""Perplexity by position in a segment and by distance from the start of a text: what one number does not say."""

from collections.abc import Mapping
from itertools import pairwise

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.language_models.perplexities import shown
from fastweights.experiments.language_models.tables import Table
from fastweights.runs.record import Record


def by_position(models: Mapping[str, Record]) -> Table:
    """Words of a segment that starts with an empty memory: how much a model makes of the words before."""
    caption = "Perplexity on the validation text by position in a segment that starts with an empty memory."
    return _table("budget-segment", caption, models, "segment", ("losses",))


def by_distance(models: Mapping[str, Record]) -> Table:
    """Words of a text by their distance from its start, with the memory carried on and with it reset."""
    caption = (
        "Perplexity on the validation text by distance from its start: with the memory carried on / reset after "
        "every segment."
    )
    return _table("budget-distance", caption, models, "positions", ("carried", "reset"))


def _table(name: str, caption: str, models: Mapping[str, Record], measured: str, sides: tuple[str, ...]) -> Table:
    """Each model that was measured so, with the perplexities of one or both sides between the edges of the first."""
    parts = {model: record.result[measured] for model, record in models.items() if measured in record.result}
    edges = next(iter(parts.values()))["edges"] if parts else []
    rows = []
    for model, part in parts.items():
        if part["edges"] == edges:
            losses = zip(*(part[side] for side in sides), strict=True)
            rows.append((model, *(" / ".join(shown(perplexity_of(loss)) for loss in row) for row in losses)))
    heads = (f"words {start + 1:,} to {end:,}" for start, end in pairwise(edges))
    return Table(name, caption, ("model", *heads), tuple(rows))
