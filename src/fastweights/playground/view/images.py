"""Tensors as small pictures inside a page: one pixel for each number, which the page makes larger."""

import base64
import io
from html import escape

from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.image import imsave
from torch import Tensor

from fastweights.experiments.demo.memory import BLUE, CHANGE, ORANGE, PURPLE, SIDE
from fastweights.playground.view.text import SMALLEST

GREY = "#787878"
PICTURE = LinearSegmentedColormap.from_list(
    "picture", [(0.0, GREY), (1 / 3, "#ffffff"), (2 / 3, BLUE), (5 / 6, PURPLE), (1.0, ORANGE)]
)
"""From -1 to 2: less than nothing is grey, nothing white, ink blue, ink on top of ink orange."""


def image(numbers: Tensor, colours: Colormap, low: float, high: float, description: str, kind: str = "") -> str:
    """An <img> of a matrix; `kind` is its class in the style sheet."""
    buffer = io.BytesIO()
    imsave(buffer, numbers.numpy(), cmap=colours, vmin=low, vmax=high, format="png")
    content = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img class="fw-pixels {kind}" src="data:image/png;base64,{content}" alt="{escape(description)}">'


def picture_image(pixels: Tensor, description: str) -> str:
    """A picture of the values, from -1 to 2."""
    return image(pixels.reshape(SIDE, SIDE), PICTURE, -1, 2, description, "fw-picture")


def picture_legend() -> str:
    """What the colours of a picture mean."""
    shades = ((GREY, "−1"), ("#ffffff", "0"), (BLUE, "1, ink"), (ORANGE, "2, ink twice"))
    cells = "".join(f'<li><span style="background:{colour}"></span>{name}</li>' for colour, name in shades)
    return f'<ul class="fw-shades" aria-label="Colours of the pictures"><li>Colours:</li>{cells}</ul>'


def matrix_image(numbers: Tensor, description: str) -> str:
    """A heat map around zero: blue is positive, orange is negative."""
    limit = max(float(numbers.abs().max()), SMALLEST) if numbers.numel() else 1.0
    return image(numbers, CHANGE, -limit, limit, description, "fw-matrix")
