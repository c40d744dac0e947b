from itertools import combinations, product

from pairwise import every_pair, pairs_first

CHOICES = [choice for choice in product("abcd", "xyz", (1, 2, 3), (True, False)) if choice[:2] != ("a", "x")]


def pairs(choices: list[tuple[object, ...]]) -> set[object]:
    return {pair for choice in choices for pair in combinations(enumerate(choice), 2)}


def test_every_pair_that_goes_together_is_there_in_few_choices() -> None:
    few = every_pair(CHOICES, tuple)
    assert pairs(few) == pairs(CHOICES)
    assert len(few) == len(set(few)) <= 16, "the pairs of letters alone need 11"
    assert every_pair([], tuple) == []


def test_the_others_are_slow() -> None:
    parameters = pairs_first(CHOICES, tuple)
    slow = [choice for choice, parameter in zip(CHOICES, parameters, strict=True) if parameter is not choice]
    assert [parameter.values for parameter in parameters if parameter not in CHOICES] == [(choice,) for choice in slow]
    assert {mark.name for parameter in parameters if parameter not in CHOICES for mark in parameter.marks} == {"slow"}
    assert set(CHOICES) - set(slow) == set(every_pair(CHOICES, tuple))
