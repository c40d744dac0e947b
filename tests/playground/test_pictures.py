"""The pictures that are written."""

import pytest

from fastweights.playground.pictures import NAMED, PIXELS, PLACES, drawn, name_of, named, places_of


@pytest.mark.parametrize("name", NAMED)
def test_a_picture_is_the_same_by_name_and_by_pixel(name: str) -> None:
    picture = named(name)
    assert len(picture) == PIXELS
    assert drawn(places_of(picture)) == picture
    assert name_of(picture) == name


def test_pixels_are_set_where_they_are_said_to_be() -> None:
    picture = drawn(["row 2, column 3"])
    assert [n for n, pixel in enumerate(picture) if pixel] == [7 + 2]
    assert name_of(picture) == "a drawing"


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no pixel 'row 8, column 1'"):
        drawn([*PLACES, "row 8, column 1"])
    with pytest.raises(ValueError, match="none of the name 'cat'"):
        named("cat")
