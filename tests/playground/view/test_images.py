"""Tensors as pictures: which colour a number has."""

import base64
import io
import re

import numpy
import pytest
import torch
from matplotlib.image import imread

from fastweights.playground.view.images import matrix_image, picture_image
from fastweights.playground.view.text import SMALLEST


def pixels(html: str) -> numpy.ndarray:
    found = re.search(r"base64,([^\"]+)", html)
    assert found is not None
    return imread(io.BytesIO(base64.b64decode(found[1])), format="png")[..., :3]


def test_a_heat_map_is_blue_above_zero_and_orange_below() -> None:
    blue, white, orange = pixels(matrix_image(torch.tensor([[1.0, 0.0, -1.0]]), "W"))[0]
    assert blue[2] > blue[0]
    assert white.min() > 0.96
    assert orange[0] > orange[2]


@pytest.mark.parametrize("size", [0.0, 1e-15, SMALLEST / 100])
def test_rounding_has_no_colour(size: float) -> None:
    assert pixels(matrix_image(torch.tensor([[size, -size]]), "W")).min() > 0.96


def test_a_picture_is_white_where_nothing_is() -> None:
    assert (pixels(picture_image(torch.zeros(49), "nothing")) == 1).all()
