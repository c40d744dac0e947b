"""Files of text that may be compressed: read line by line, in constant memory."""

import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

COMPRESSED: dict[str, Callable[[IO[bytes]], Any]] = {
    "": lambda file: file,
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lzma.LZMAFile,
}
"""How a file is read, by the ending of its name."""

OnBytes = Callable[[int], None]
"""Called with the number of bytes just read, as they are in the compressed file."""


def ending_of(path: Path) -> str:
    """.gz, .xz or nothing."""
    return path.suffix if path.suffix in COMPRESSED else ""


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The content of a file, and the file as it is on the disk; a damaged one is a ValueError that names it."""
    ending = ending_of(path)
    if ending and path.stat().st_size == 0:
        raise ValueError(f"{path}: not a readable {ending[1:]} file (it is empty)")
    try:
        with path.open("rb") as file, io.BufferedReader(COMPRESSED[ending](file)) as content:
            yield content, file
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise ValueError(f"{path}: not a readable {ending[1:]} file ({error})") from error


def text_lines(path: Path, block: int = -1, on_bytes: OnBytes = lambda count: None) -> Iterator[str]:
    """The lines of a UTF-8 file with any ends; of those that are longer than `block`, so many characters at a time."""
    before = 0
    try:
        with opened(path) as (content, file), io.TextIOWrapper(content, encoding="utf-8-sig") as text:
            while line := text.readline(block):
                if (now := file.tell()) != before:
                    on_bytes(now - before)
                    before = now
                yield line
    except UnicodeDecodeError as error:
        found = f"byte {error.object[error.start]:#04x}: {error.reason}"
        with opened(path) as (content, _):
            if content.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                found = "it begins like UTF-16: convert it, for instance with iconv -f UTF-16 -t UTF-8"
        raise ValueError(f"{path}: not UTF-8 text ({found})") from error
