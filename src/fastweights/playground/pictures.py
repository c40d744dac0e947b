"""The values that the page writes: small pictures and digits to take, or pixels that a user sets."""

from collections.abc import Iterable

from fastweights.experiments.demo.memory import PICTURES, SIDE

PIXELS = SIDE * SIDE

DIGITS = {
    "0": "..###.. .#...#. .#...#. .#...#. .#...#. .#...#. ..###..",
    "1": "...#... ..##... ...#... ...#... ...#... ...#... ..###..",
    "2": "..###.. .#...#. .....#. ....#.. ...#... ..#.... .#####.",
    "3": "..###.. .#...#. .....#. ...##.. .....#. .#...#. ..###..",
    "4": "....#.. ...##.. ..#.#.. .#..#.. .#####. ....#.. ....#..",
    "5": ".#####. .#..... .####.. .....#. .....#. .#...#. ..###..",
    "6": "...##.. ..#.... .#..... .####.. .#...#. .#...#. ..###..",
    "7": ".#####. .....#. ....#.. ...#... ...#... ..#.... ..#....",
    "8": "..###.. .#...#. .#...#. ..###.. .#...#. .#...#. ..###..",
    "9": "..###.. .#...#. .#...#. ..####. .....#. ....#.. ..##...",
}
NAMED = PICTURES | DIGITS

Picture = tuple[int, ...]
"""One number for each pixel, row by row: 1 where there is ink."""

PLACES = tuple(f"row {row + 1}, column {column + 1}" for row in range(SIDE) for column in range(SIDE))
"""What a reader of the screen calls each pixel."""


def named(name: str) -> Picture:
    """The pixels of a picture or digit."""
    if name not in NAMED:
        raise ValueError(f"picture: there is none of the name {name!r}; possible: {', '.join(NAMED)}")
    return tuple(int(pixel == "#") for pixel in NAMED[name].replace(" ", ""))


def drawn(places: Iterable[str]) -> Picture:
    """The picture whose pixels at these places were set."""
    inked = set(places)
    if strange := inked - set(PLACES):
        raise ValueError(f"picture: there is no pixel {sorted(strange)[0]!r}")
    return tuple(int(place in inked) for place in PLACES)


def places_of(picture: Picture) -> list[str]:
    """The places of the pixels that are set."""
    return [place for place, pixel in zip(PLACES, picture, strict=True) if pixel]


def name_of(picture: Picture) -> str:
    """What the picture is called."""
    return next((name for name in NAMED if named(name) == picture), "a drawing")
