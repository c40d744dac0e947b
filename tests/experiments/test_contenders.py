"""The models that are compared: they build, are called something, and have memories of one size."""

import pytest

from fastweights.experiments.contenders import CONTENDERS, contender
from fastweights.experiments.recall.grids import ALL
from fastweights.experiments.series import CONTENDER_SERIES
from fastweights.layers import FastWeightAttention


@pytest.mark.parametrize("heads", [2, 4])
def test_memories_that_are_compared_have_one_size(heads: int) -> None:
    sizes = set()
    for name in ALL:
        layer = CONTENDERS[name].build(64, heads)
        if isinstance(layer, FastWeightAttention):
            sizes.add(layer.initial_state(1).weights.numel())
    assert sizes == {heads * (64 // heads) * (2 * 64 // heads)}
    assert set(ALL) <= CONTENDERS.keys()


def test_each_has_a_name_and_a_look_of_its_own() -> None:
    assert CONTENDER_SERIES.keys() == CONTENDERS.keys()
    assert len({series.label for series in CONTENDER_SERIES.values()}) == len(CONTENDERS)
    looks = [(CONTENDER_SERIES[name].colour, CONTENDER_SERIES[name].marker) for name in ALL]
    assert len(set(looks)) == len(looks)


def test_an_unknown_one_is_answered_with_those_there_are() -> None:
    with pytest.raises(
        ValueError, match=r"model: unknown name 'delta-12' \(did you mean 'delta-l2'\?\); possible: soft"
    ):
        contender("delta-12", "images", None)
