"""Small IDX files."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def idx(array: NDArray[np.uint8]) -> bytes:
    """An array in the form of an IDX file."""
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_images(folder: Path, count: int, side: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The four files of MNIST with random images; train and test are the same."""
    random = np.random.default_rng(0)
    pixels = random.integers(256, size=(count, side, side), dtype=np.uint8)
    labels = (np.arange(count) % 10).astype(np.uint8)
    for prefix in ("train", "t10k"):
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(idx(pixels))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(labels))
    return pixels, labels
