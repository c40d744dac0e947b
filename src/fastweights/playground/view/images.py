"""Tensors as small pictures inside a page: one pixel for each number, which the page makes larger."""

import base64
import io
from html import escape

from matplotlib.colors import Colormap
from matplotlib.image import imsave
from torch import Tensor

from fastweights.experiments.demo.memory import CHANGE, INK, SIDE


def image(numbers: Tensor, colours: Colormap, low: float, high: float, description: str, kind: str = "") -> str:
    """An <img> of a matrix; `kind` is its class in the style sheet."""
    buffer = io.BytesIO()
    imsave(buffer, numbers.numpy(), cmap=colours, vmin=low, vmax=high, format="png")
    content = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img class="fw-pixels {kind}" src="data:image/png;base64,{content}" alt="{escape(description)}">'


def picture_image(pixels: Tensor, description: str) -> str:
    """A picture of the values: white is nothing, blue is ink, orange is ink twice."""
    return image(pixels.reshape(SIDE, SIDE), INK, 0, 2, description, "fw-picture")


def matrix_image(numbers: Tensor, description: str) -> str:
    """A heat map around zero: blue is positive, orange is negative."""
    limit = max(float(numbers.abs().max()), 1e-30) if numbers.numel() else 1.0
    return image(numbers, CHANGE, -limit, limit, description, "fw-matrix")
