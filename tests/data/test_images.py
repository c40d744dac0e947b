"""IDX files and drawn digits: what is read, and one clear line about files that are not right."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from fastweights.data.images import drawn_digits, open_images, read_idx
from idx_files import idx, write_images


def test_pixels_and_labels_are_read(tmp_path: Path) -> None:
    pixels, labels = write_images(tmp_path, count=5, side=3)
    images = open_images(str(tmp_path))
    np.testing.assert_allclose(images.train.pixels, pixels.reshape(5, 9) / 255, rtol=1e-6)
    assert images.train.pixels.dtype == np.float32
    np.testing.assert_array_equal(images.test.labels, labels)


def test_files_may_be_compressed(tmp_path: Path) -> None:
    write_images(tmp_path, count=5, side=3)
    plain = open_images(str(tmp_path))
    for path in list(tmp_path.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    np.testing.assert_array_equal(open_images(str(tmp_path)).train.pixels, plain.train.pixels)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "0 bytes are too few for the header of an IDX file"),
        (b"\x00\x00\x08", "3 bytes are too few"),
        (
            struct.pack(">4B3I", 0, 0, 8, 3, 2, 3, 3) + bytes(17),
            "says 2 × 3 × 3, which makes 34 bytes; the file has 33",
        ),
        (struct.pack(">4B3I", 0, 0, 8, 3, 2, 3, 3) + bytes(19), "makes 34 bytes; the file has 35"),
        (struct.pack(">4B3I", 0, 0, 13, 3, 1, 1, 1) + bytes(4), "begins with 00 00 0d 03"),
        (idx(np.zeros(20, dtype=np.uint8)), "not an IDX file of bytes in 3 dimensions; it begins with 00 00 08 01"),
        (struct.pack(">4B3I", 0, 0, 8, 3, *[2**32 - 1] * 3), "the file has 16"),
    ],
)
def test_a_file_of_the_wrong_size_or_kind_is_refused(content: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint) as caught:
        read_idx(path, 3)
    assert "\n" not in str(caught.value)


def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    for content in (b"no gzip", gzip.compress(bytes(1000))[:-9]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="not a readable gzip file"):
            read_idx(path, 3)


def test_labels_must_fit_the_images(tmp_path: Path) -> None:
    write_images(tmp_path, count=5, side=3)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(4, dtype=np.uint8)))
    with pytest.raises(ValueError, match="4 labels for the 5 images of train-images-idx3-ubyte"):
        open_images(str(tmp_path))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.full(5, 10, dtype=np.uint8)))
    with pytest.raises(ValueError, match="expected labels from 0 to 9, got 10"):
        open_images(str(tmp_path))


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such folder; expected one with the four IDX files of MNIST, or 'drawn'"):
        open_images(str(tmp_path / "nowhere"))
    with pytest.raises(
        ValueError, match=r"there is no train-images-idx3-ubyte and no train-images-idx3-ubyte.gz in it"
    ):
        open_images(str(tmp_path))


def test_drawn_digits_are_all_different_and_like_their_kind() -> None:
    images = drawn_digits(200, seed=3)
    assert images.pixels.shape == (200, 784)
    assert (images.pixels.min(), images.pixels.max()) == (0.0, 1.0)
    assert len(np.unique(images.pixels, axis=0)) == 200
    means = np.stack([images.pixels[images.labels == digit].mean(axis=0) for digit in range(10)])
    fresh = drawn_digits(100, seed=4)
    nearest = ((fresh.pixels[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == fresh.labels).mean() > 0.7, "a guess has a tenth"
    np.testing.assert_array_equal(drawn_digits(200, seed=3).pixels, images.pixels)


def test_images_must_have_pixels_and_one_size(tmp_path: Path) -> None:
    write_images(tmp_path, count=5, side=3)
    smaller = tmp_path / "smaller"
    smaller.mkdir()
    write_images(smaller, count=5, side=2)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes((smaller / "t10k-images-idx3-ubyte").read_bytes())
    with pytest.raises(ValueError, match=r"differ in size: 3 × 3 in train-images.*, 2 × 2 in t10k-images"):
        open_images(str(tmp_path))
    write_images(tmp_path, count=0, side=3)
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte: there are no pixels in its 0 images"):
        open_images(str(tmp_path))


def test_any_damage_of_a_gzip_file_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(np.random.default_rng(0).integers(5, size=3000, dtype=np.uint8).tobytes())
    path = tmp_path / "images.gz"
    for place in range(20, len(whole), 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"images\.gz"):
            read_idx(path, 1)
