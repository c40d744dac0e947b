"""Labels that are learned in context and change: pictures of a few digits, whose labels are drawn anew every time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastweights.data.images import Images
from fastweights.data.marked import NOTHING, MarkedSteps

OFTEN = 4
"""Classes whose labels were exchanged so often or more are one group."""


@dataclass(frozen=True)
class Episodes:
    """Every picture comes twice: without its label, which is asked for, and then with it.

    An episode has pictures of `classes` of the ten digits, with labels 0 … `classes` - 1 in an order of its own. Before
    each picture two of the labels change places with probability `swaps`. A label is asked for where it could be known:
    where its class has been shown with it. The group of a question is how often the label of its class has changed.
    """

    pictures: int = 24
    classes: int = 4
    swaps: float = 0.15

    def __post_init__(self) -> None:
        if self.pictures < 2:
            raise ValueError(f"pictures: expected at least 2, got {self.pictures}")
        if not 2 <= self.classes <= 10:
            raise ValueError(f"classes: expected 2 to 10 of the ten digits, got {self.classes}")
        if not 0 <= self.swaps <= 1:
            raise ValueError(f"swaps: expected a probability, got {self.swaps}")

    def draw(self, images: Images, rows: int, times: int, random: np.random.Generator) -> MarkedSteps:
        """Random episodes of `times` as many pictures."""
        by_digit = places_of_digits(images)
        pixels, steps = images.pixels.shape[1], 2 * times * self.pictures
        inputs = np.zeros((rows, steps, pixels + self.classes), dtype=np.float32)
        targets, groups = np.full((rows, steps), NOTHING, dtype=np.int64), np.zeros((rows, steps), dtype=np.int64)
        for row in range(rows):
            digits, labels = random.permutation(10)[: self.classes], random.permutation(self.classes)
            known, changed = np.zeros(self.classes, dtype=bool), np.zeros(self.classes, dtype=np.int64)
            for step in range(0, steps, 2):
                if random.random() < self.swaps:
                    pair = random.permutation(self.classes)[:2]
                    labels[pair] = labels[pair[::-1]]
                    known[pair], changed[pair] = False, changed[pair] + 1
                shown = random.integers(self.classes)
                inputs[row, step : step + 2, :pixels] = images.pixels[random.choice(by_digit[digits[shown]])]
                inputs[row, step + 1, pixels + labels[shown]] = 1.0
                if known[shown]:
                    targets[row, step] = labels[shown]
                    groups[row, step] = min(changed[shown], OFTEN)
                known[shown] = True
        return MarkedSteps.of(inputs, targets, groups)


def places_of_digits(images: Images) -> list[NDArray[np.intp]]:
    """Where the pictures of each digit are; a ValueError names a digit of which there is none."""
    by_digit = [np.flatnonzero(images.labels == digit) for digit in range(10)]
    if empty := [digit for digit, places in enumerate(by_digit) if not len(places)]:
        raise ValueError(f"images: there is no picture of {', '.join(map(str, empty))} among {len(images)}")
    return by_digit
