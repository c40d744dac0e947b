"""docs/math.md has a row for every equation, and what its rows name exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "math.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| `(.+?): (\w+)` \| `(.+?)::(\w+)` \|$", re.MULTILINE)
ROWS = ROW.findall(TEXT)


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def test_every_equation_has_its_row() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 52))


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_a_row_names_exists(row: tuple[str, ...]) -> None:
    number, _, _, source, function, test_file, test = row
    assert function in names_in(ROOT / "src" / "fastweights" / source), number
    assert test in names_in(ROOT / "tests" / test_file), number


@pytest.mark.parametrize("anchor", ["chunks", "stabilised-favor", "extremes", "differences"])
def test_anchors_that_the_code_points_to_exist(anchor: str) -> None:
    assert f'<a id="{anchor}"></a>' in TEXT
    assert f"](#{anchor})" in TEXT


def test_tests_and_files_named_in_the_text_exist() -> None:
    for name in re.findall(r"`((?:\w+/)*test_\w+\.py)(?:::\w+)?`", TEXT):
        assert (ROOT / "tests" / name).exists(), name
    for name, test in re.findall(r"`((?:\w+/)*test_\w+\.py)::(\w+)`", TEXT):
        assert test in names_in(ROOT / "tests" / name), test
    pointed_to = {
        anchor
        for path in (ROOT / "src" / "fastweights").rglob("*.py")
        for anchor in re.findall(r"math\.md#([\w-]+)", path.read_text(encoding="utf-8"))
    }
    assert all(f'<a id="{anchor}"></a>' in TEXT for anchor in pointed_to)
