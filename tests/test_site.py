"""The documentation site: every page is in it, and it builds without a warning where mkdocs is installed."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_every_page_is_in_the_navigation_once() -> None:
    named = re.findall(r"^\s+- [^:\n]+: (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_reference_names_all_that_the_package_offers() -> None:
    import fastweights

    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = {name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}
    others = {name for name in fastweights.__all__ if name.isupper() and name != "DPFP"} | {"__version__"}
    assert set(fastweights.__all__) - others - shown == set()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is installed by `make docs` only")
def test_it_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    subprocess.run(command, check=True, cwd=ROOT, env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin"})
    pages = list((tmp_path / "site").glob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").glob("*.md"))) - 1
    for page in pages:
        loaded = re.findall(
            r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page.read_text(encoding="utf-8")
        )
        assert not loaded, page.name
