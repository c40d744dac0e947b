"""Lines of files that may be compressed."""

import gzip
import lzma
from pathlib import Path

import pytest

from fastweights.data.compressed import ending_of, text_lines


@pytest.mark.parametrize(("name", "pack"), [("a.txt", bytes), ("a.txt.gz", gzip.compress), ("a.txt.xz", lzma.compress)])
def test_lines_and_blocks_are_those_of_the_text(tmp_path: Path, name: str, pack: "type[bytes]") -> None:
    file, read = tmp_path / name, []
    file.write_bytes(pack("\ufeffé one\r\ntwo\n\nlast".encode()))
    assert list(text_lines(file, on_bytes=read.append)) == ["é one\n", "two\n", "\n", "last"]
    assert sum(read) == file.stat().st_size
    assert list(text_lines(file, 4)) == ["é on", "e\n", "two\n", "\n", "last"]
    assert f"a.txt{ending_of(file)}" == name


def test_what_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"fine\n\xff\n"))
    with pytest.raises(ValueError, match=r"a.txt.gz: not UTF-8 text \(byte 0xff"):
        list(text_lines(tmp_path / "a.txt.gz"))
    (tmp_path / "u.txt").write_bytes("some text\n".encode("utf-16"))
    with pytest.raises(ValueError, match=r"u.txt: not UTF-8 text \(it begins like UTF-16: convert it"):
        list(text_lines(tmp_path / "u.txt"))
    (tmp_path / "b.txt.gz").write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(ValueError, match=r"b.txt.gz: not a readable gz file"):
        list(text_lines(tmp_path / "b.txt.gz"))


@pytest.mark.parametrize("name", ["text.gz", "text.xz"])
def test_every_kind_of_damage_is_named(tmp_path: Path, name: str) -> None:
    """Bytes that are changed anywhere, a file that ends early, and one that never began."""
    pack = {".gz": gzip.compress, ".xz": lzma.compress}[Path(name).suffix]
    whole = pack("\n".join(str(number * 7919 % 1000) for number in range(3000)).encode())
    path, named = tmp_path / name, 0
    for place in range(20, len(whole) - 20, len(whole) // 25):
        for damaged in (whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :], whole[:place]):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=rf"{name}: not (a readable|UTF-8)"):
                list(text_lines(path))
            named += 1
    assert named >= 50
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=rf"{name}: not a readable .. file \(it is empty\)"):
        list(text_lines(path))
