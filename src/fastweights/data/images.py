"""Images with labels: the IDX files of MNIST (LeCun et al., 1998) from a folder, or digits that are drawn here.

FOLDER/train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte  t10k-labels-idx1-ubyte   also .gz
"""

import gzip
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastweights.files import sha256_of

SPLITS = {"train": "train", "test": "t10k"}
DRAWN = "drawn"
"""The name of the digits that need no files."""
SIDE = 28
UNSIGNED_BYTES = 8
"""The type of the numbers in an IDX file, from its header."""


@dataclass(frozen=True, eq=False)
class Images:
    """Pixels from 0 to 1, one row per image, and what each image is."""

    pixels: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, chosen: slice) -> "Images":
        """Some of the images."""
        return Images(self.pixels[chosen], self.labels[chosen])


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images to learn from and to be tested on, and the files' digest."""

    train: Images
    test: Images
    digest: str


def open_images(source: str) -> ImageSet:
    """The images of a folder, or the drawn ones; a ValueError names the file that is missing or damaged."""
    if source == DRAWN:
        return ImageSet(drawn_digits(2000, seed=1), drawn_digits(500, seed=2), DRAWN)
    folder = Path(source)
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; expected one with the four IDX files of MNIST, or {DRAWN!r}")
    splits, digests, sizes = {}, [], {}
    for split, prefix in SPLITS.items():
        pixels_file, labels_file = (_file(folder, f"{prefix}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
        pixels, labels = read_idx(pixels_file, 3), read_idx(labels_file, 1)
        if len(pixels) != len(labels):
            raise ValueError(f"{labels_file}: {len(labels)} labels for the {len(pixels)} images of {pixels_file.name}")
        if labels.max(initial=0) > 9:
            raise ValueError(f"{labels_file}: expected labels from 0 to 9, got {labels.max()}")
        if not pixels.size:
            raise ValueError(f"{pixels_file}: there are no pixels in its {len(pixels)} images")
        sizes[pixels_file.name] = pixels.shape[1:]
        flat = pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255)
        splits[split] = Images(flat, labels.astype(np.int64))
        digests.append(sha256_of(pixels_file)[:12])
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{height} × {width} in {name}" for name, (height, width) in sizes.items())
        raise ValueError(f"{folder}: images to learn from and to be tested on differ in size: {found}")
    return ImageSet(splits["train"], splits["test"], "-".join(digests))


def _file(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise ValueError(f"{folder}: there is no {name} and no {name}.gz in it")


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of an IDX file: 0, 0, the type, the number of dimensions, their sizes, then the numbers."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, zlib.error, EOFError, OSError) as error:
        raise ValueError(f"{path}: not a readable gzip file ({error})") from error
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise ValueError(f"{path}: {len(content)} bytes are too few for the header of an IDX file")
    if content[:4] != bytes((0, 0, UNSIGNED_BYTES, dimensions)):
        raise ValueError(
            f"{path}: not an IDX file of bytes in {dimensions} dimensions; it begins with {content[:4].hex(' ')}"
        )
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    expected = header + int(np.prod(shape, dtype=np.uint64))
    if len(content) != expected:
        sizes = " × ".join(map(str, shape))
        raise ValueError(f"{path}: its header says {sizes}, which makes {expected} bytes; the file has {len(content)}")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


SEGMENTS = "abcdefg"
STROKES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "a": ((0.25, 0.12), (0.75, 0.12)),
    "b": ((0.75, 0.12), (0.75, 0.5)),
    "c": ((0.75, 0.5), (0.75, 0.88)),
    "d": ((0.25, 0.88), (0.75, 0.88)),
    "e": ((0.25, 0.5), (0.25, 0.88)),
    "f": ((0.25, 0.12), (0.25, 0.5)),
    "g": ((0.25, 0.5), (0.75, 0.5)),
}
"""Where the strokes of a seven-segment digit begin and end, as (x, y) in a square of side 1."""
DIGITS = ("abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", SEGMENTS, "abcdfg")


def drawn_digits(count: int, seed: int, side: int = SIDE) -> Images:
    """Seven-segment digits, each with ends of strokes, thickness and place of its own: no two are alike."""
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    y, x = np.mgrid[0:side, 0:side] / (side - 1)
    pixels = np.zeros((count, side, side), dtype=np.float32)
    for image, label in zip(pixels, labels, strict=True):
        corners = {
            point: np.array(point) + random.normal(0, 0.04, 2) for stroke in STROKES.values() for point in stroke
        }
        moved, width = random.normal(0, 0.04, 2), random.uniform(0.05, 0.09)
        for segment in DIGITS[label]:
            begin, end = (corners[point] + moved for point in STROKES[segment])
            np.maximum(image, _stroke(x, y, begin, end, width), out=image)
    return Images(pixels.reshape(count, -1), labels)


def _stroke(
    x: NDArray[np.float64], y: NDArray[np.float64], begin: NDArray[np.float64], end: NDArray[np.float64], width: float
) -> NDArray[np.float64]:
    """1 near the line from begin to end, 0 away from it, with a soft edge."""
    along = end - begin
    share = ((x - begin[0]) * along[0] + (y - begin[1]) * along[1]) / (along @ along)
    share = share.clip(0, 1)
    distance = np.hypot(x - begin[0] - share * along[0], y - begin[1] - share * along[1])
    return np.clip((width - distance) / 0.04 + 0.5, 0, 1)
