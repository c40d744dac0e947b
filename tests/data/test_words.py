"""Words over groups: every step has the product of all letters so far, counted here in plain Python."""

import numpy as np
import pytest

from fastweights.data.words import GroupWords


def drawn(words: GroupWords, times: int = 2, seed: int = 1) -> tuple[list[list[int]], list[list[int]]]:
    inputs, targets, _ = words.draw(5, times, np.random.default_rng(seed))
    return inputs.tolist(), targets.tolist()


@pytest.mark.parametrize("order", [2, 3, 7])
def test_words_over_cyclic_groups_count(order: int) -> None:
    for letters, states in zip(*drawn(GroupWords(f"z{order}", length=30)), strict=True):
        total = 0
        for letter, state in zip(letters, states, strict=True):
            total = (total + letter) % order
            assert state == total


@pytest.mark.parametrize(("group", "letters"), [("s3", "all"), ("s5", "swaps"), ("s5", "cycles"), ("s4", "all")])
def test_words_over_permutations_follow_every_point(group: str, letters: str) -> None:
    words = GroupWords(group, letters, length=30)  # type: ignore[arg-type]
    for row, states in zip(*drawn(words), strict=True):
        places = list(range(int(group[1])))
        for letter, state in zip(row, states, strict=True):
            move = words.elements[words.alphabet[letter]]
            places = [move[place] for place in places]
            assert words.elements[state] == tuple(places)


def test_the_letters_of_s5() -> None:
    def moved(words: GroupWords) -> list[int]:
        return [sum(a != b for a, b in enumerate(words.elements[letter])) for letter in words.alphabet]

    assert moved(GroupWords("s5", "swaps")) == [0, 2, 2, 2, 2]
    assert moved(GroupWords("s5", "cycles")) == [0, 3, 3, 3]
    assert GroupWords("s5").num_tokens == GroupWords("s5").num_classes == 120


def test_groups_count_whole_lengths() -> None:
    _, _, groups = GroupWords("z2", length=4).draw(2, 3, np.random.default_rng(0))
    assert groups.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]] * 2


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("a5",), "group: expected z2 to z100 or s2 to s5, got 'a5'"),
        (("s6",), "group: expected z2"),
        (("z1",), "group: expected z2"),
        (("z3", "swaps"), "letters: the group 'z3' has no swaps; possible: all"),
        (("s2", "cycles"), "letters: the group 's2' has no cycles; possible: all"),
        (("s3", "turns"), "letters: expected one of all, swaps, cycles, got 'turns'"),
        (("s3", "all", 0), "length: expected at least 1 step, got 0"),
    ],
)
def test_what_is_no_word_is_refused(arguments: tuple[object, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        GroupWords(*arguments)  # type: ignore[arg-type]
