"""Which memories the page can show."""

import pytest

from fastweights.feature_maps import FEATURE_MAPS
from fastweights.memory import NORMALISATIONS
from fastweights.playground.choices import NORMALISED, PLAYED_MAPS, PLAYED_RULES, MemoryChoice
from fastweights.update_rules import UPDATE_RULES


def test_all_of_the_library_is_there_but_what_a_hand_cannot_write() -> None:
    assert set(UPDATE_RULES) - set(PLAYED_RULES) == {"delta-product"}
    assert set(FEATURE_MAPS) - {name.removesuffix("-1") for name in PLAYED_MAPS} == {"favor"}
    assert set(NORMALISED) - set(NORMALISATIONS) == {"attention"}


def test_what_does_not_exist_is_named_with_what_does() -> None:
    with pytest.raises(ValueError, match=r"rule: unknown name 'dleta'.*did you mean 'delta'"):
        MemoryChoice("dleta")
    with pytest.raises(ValueError, match="normalisation: unknown name 'l3'"):
        MemoryChoice(normalisation="l3")


def test_what_does_not_go_together_is_refused_as_a_layer_does() -> None:
    with pytest.raises(ValueError, match=r"features of Tanh.* can be negative"):
        MemoryChoice("sum", "tanh", "attention").mapping(16)
