"""Episodes: labels that are asked for are those that were shown last with the same digit."""

import numpy as np
import pytest

from fastweights.data.episodes import OFTEN, Episodes
from fastweights.data.images import Images
from fastweights.data.marked import NOTHING

CODES = Images(np.repeat(np.eye(10, dtype=np.float32), 3, axis=0), np.repeat(np.arange(10), 3))
"""Pictures of ten pixels that say which digit they are."""


@pytest.mark.parametrize("episodes", [Episodes(), Episodes(40, 3, 0.4), Episodes(10, 10, 0.0), Episodes(30, 2, 1.0)])
def test_a_label_is_asked_for_where_it_was_shown(episodes: Episodes) -> None:
    inputs, targets, groups = episodes.draw(CODES, 6, 2, np.random.default_rng(2))
    assert inputs.shape == (6, 4 * episodes.pictures, 10 + episodes.classes)
    for row, answers in zip(inputs, targets.tolist(), strict=True):
        shown: dict[int, int] = {}
        for step in range(0, len(answers), 2):
            assert row[step, :10].equal(row[step + 1, :10])
            assert not row[step, 10:].any()
            digit, label = int(row[step, :10].argmax()), int(row[step + 1, 10:].argmax())
            assert answers[step + 1] == NOTHING
            if answers[step] != NOTHING:
                assert answers[step] == label == shown[digit]
            elif digit in shown:
                assert episodes.swaps > 0, "a label that never changes can be known once it was shown"
            shown[digit] = label
        assert len(shown) <= episodes.classes
    assert int(groups.max()) <= OFTEN
    assert (episodes.swaps in (0.0, 1.0)) == (int(groups.max()) == 0)


def test_changes_are_counted() -> None:
    always = Episodes(50, 2, 1.0).draw(CODES, 3, 1, np.random.default_rng(0))
    assert not always.asked.any(), "both labels change before every picture: none can be known"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [((1,), "pictures: expected at least 2"), ((5, 11), "classes: expected 2 to 10"), ((5, 4, 1.5), "swaps: expected")],
)
def test_what_cannot_be_drawn_is_refused(fields: tuple[float, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Episodes(*fields)  # type: ignore[arg-type]


def test_every_digit_needs_a_picture() -> None:
    with pytest.raises(ValueError, match="there is no picture of 9"):
        Episodes().draw(CODES.part(slice(0, 27)), 1, 1, np.random.default_rng(0))
