"""Perplexities by position in a segment and by distance in a text, from what records hold."""

import math

from budget_records import record
from fastweights.experiments.language_models.budget_positions import by_distance, by_position


def test_positions_of_a_segment_have_a_column_each() -> None:
    measured = {"edges": [0, 4, 16], "losses": [math.log(300.0), math.log(100.0)]}
    table = by_position({"A": record(1.0, segment=measured), "B": record(1.0)})
    assert table.columns == ("model", "words 1 to 4", "words 5 to 16")
    assert table.rows == (("A", "300.0", "100.0"),)


def test_distances_show_the_carried_memory_beside_the_emptied_one() -> None:
    measured = {"edges": [0, 300, 1000], "carried": [math.log(90.0), None], "reset": [math.log(90.0), math.log(80.0)]}
    table = by_distance({"A": record(1.0, positions=measured)})
    assert table.columns == ("model", "words 1 to 300", "words 301 to 1,000")
    assert table.rows == (("A", "90.0 / 90.0", "infinite / 80.0"),)
