"""What the documents show runs, and what they point to exists."""

import re
from pathlib import Path

import pytest

from fresh_process import exit_code

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = [
    pytest.param(code, id=f"{path.name}-{i}")
    for path in DOCUMENTS
    for i, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    assert exit_code(script, tmp_path) == 0


def test_the_readme_has_an_example_of_about_ten_lines() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert 8 <= sum(bool(line.strip()) for line in code.splitlines()) <= 12


def test_the_readme_starts_with_a_picture() -> None:
    assert README.index("![") < README.index("## ")


def test_the_numbers_at_its_top_are_those_of_the_pages_it_points_to() -> None:
    points = re.findall(r"^- \*\*.*?(?=^- |^!)", README[: README.index("## ")], re.DOTALL | re.MULTILINE)
    assert len(points) == 4
    for point in points:
        (page,) = re.findall(r"\]\((docs/\w+\.md)\)", point)
        numbers = re.findall(r"\*\*([\d.,e-]+(?: ×)?)\*\*", point)
        assert numbers, point
        text = (ROOT / page).read_text(encoding="utf-8")
        assert [number for number in numbers if not re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d.])", text)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link}
    missing = sorted(link for link in links if not (path.parent / link).exists())
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_a_document_names_exist(path: Path) -> None:
    folders = (ROOT, ROOT / "src" / "fastweights", ROOT / "tests", path.parent)
    named = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|md|cpp|h))[:`]", path.read_text(encoding="utf-8"))
    missing = [
        name for name in named if "your_" not in name and not any((folder / name).exists() for folder in folders)
    ]
    assert missing == []


def test_the_paths_named_in_the_readme_exist() -> None:
    tree = re.search(r"## The tree\n\n```\n(.*?)```", README, re.DOTALL)
    assert tree is not None
    named = re.findall(r"`((?:tests|src|docs)/[\w/.]+)`", README)
    folder = ""
    for line in tree.group(1).splitlines():
        name = line.split()[0]
        folder = folder if line.startswith(" ") else ""
        named.append(folder + name)
        folder = name if name.startswith("src/") else folder
    missing = sorted(name for name in named if not (ROOT / name).exists())
    assert missing == []


def test_every_make_command_named_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for path in DOCUMENTS:
        named = re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert {first or second for first, second in named} <= targets, path.name
