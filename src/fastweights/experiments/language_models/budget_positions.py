"""Perplexity by position in a segment and by distance from the start of a text: what one number does not say."""

from collections.abc import Mapping
from itertools import pairwise

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.language_models.perplexities import shown
from fastweights.experiments.language_models.tables import Table
from fastweights.files import Json
from fastweights.runs.record import Record


def by_position(models: Mapping[str, Record]) -> Table:
    """Words of a segment that starts with an empty memory: how much a model makes of the words before."""
    parts = {name: record.result["segment"] for name, record in models.items() if "segment" in record.result}
    edges = next(iter(parts.values()))["edges"] if parts else []
    rows = [
        (name, *(shown(perplexity_of(loss)) for loss in part["losses"]))
        for name, part in parts.items()
        if part["edges"] == edges
    ]
    caption = "Perplexity on the validation text by position in a segment that starts with an empty memory."
    return Table("budget-segment", caption, ("model", *_heads(edges)), tuple(rows))


def by_distance(models: Mapping[str, Record]) -> Table:
    """Words of a text by their distance from its start, with the memory carried on and with it reset."""
    parts = {name: record.result["positions"] for name, record in models.items() if "positions" in record.result}
    edges = next(iter(parts.values()))["edges"] if parts else []
    rows = [(name, *_pairs(part)) for name, part in parts.items() if part["edges"] == edges]
    caption = (
        "Perplexity on the validation text by distance from its start: with the memory carried on / reset after "
        "every segment."
    )
    return Table("budget-distance", caption, ("model", *_heads(edges)), tuple(rows))


def _pairs(part: Json) -> list[str]:
    return [
        f"{shown(perplexity_of(carried))} / {shown(perplexity_of(reset))}"
        for carried, reset in zip(part["carried"], part["reset"], strict=True)
    ]


def _heads(edges: list[int]) -> list[str]:
    return [f"words {start + 1:,} to {end:,}" for start, end in pairwise(edges)]
