"""The page: nothing from outside runs in it, nothing is fetched by it, the same report is the same bytes."""

import re
from pathlib import Path

import pytest

from fastweights.experiments.retrieval.figure1 import drawing as figure1
from fastweights.reporting.report import Report, Section, Table, code, fill_markers

ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</title></style><b>bold",
    "{{ 7 * 7 }}{% raw %}",
    "`<i>code</i>`",
    "javascript:alert(1)",
    "&lt;b&gt;",
]


def page(text: str) -> str:
    table = Table("name", text, (text,), ((text,),))
    return Report(text, (text,), (Section(text, (text,), tables=(table,)),), text).html()


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_comes_from_outside_is_shown_not_run(attack: str) -> None:
    harmless = page("harmless")
    attacked = page(attack)
    # The same tags as without the attack: nothing of it became one, but for the code that backticks ask for.
    tags = [tag for tag in re.findall(r"<[a-zA-Z/][^>]*>", attacked) if tag not in ("<code>", "</code>")]
    plain = re.findall(r"<[a-zA-Z/][^>]*>", harmless)
    assert [tag.split()[0] for tag in tags] == [tag.split()[0] for tag in plain]
    assert "onerror=alert" not in "".join(tags)
    assert "49" not in attacked.partition("<main>")[2]


def test_a_name_in_an_attribute_stays_there() -> None:
    assert 'href="#a-b-onclick-x"' in Report("t", (), (Section('a"b onclick=x'),), "").html()


def test_the_page_fetches_nothing() -> None:
    html = Report("t", (), (Section("s", drawings=(figure1(),)),), "").html()
    addresses = re.findall(r"""(?:src|href)=["']([^"']{0,30})""", html)
    assert addresses
    assert all(address.startswith(("data:image/", "#")) for address in addresses)
    assert "url(" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_what_scrolls_sideways_is_reached_by_keyboard_and_keeps_its_first_column() -> None:
    table = Table("losses", "Losses", ("model", "loss"), (("DPFP-1", "0.1"),))
    html = Report("t", (), (Section("s", drawings=(figure1(),), tables=(table,)),), "").html()
    assert '<div class="picture" tabindex="0">' in html
    assert '<div class="table" tabindex="0" role="region" aria-labelledby="table-losses">' in html
    assert '<caption id="table-losses">Losses</caption>' in html
    assert re.search(r'<th scope="row">DPFP-1</th>\s*<td>0.1</td>', html)


def test_the_same_report_is_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        Report("t", (), (Section("s", drawings=(figure1(),)),), "").save(tmp_path / folder)
    files = [path.relative_to(tmp_path / "a") for path in sorted((tmp_path / "a").rglob("*.*"))]
    assert [str(path) for path in files] == ["figures/figure1.png", "figures/figure1.svg", "report.html"]
    for path in files:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes(), path


def test_figures_hold_no_date() -> None:
    drawing = figure1()
    assert b"<dc:date>" not in drawing.svg
    assert b"Software" not in drawing.png
    assert drawing.png.startswith(b"\x89PNG")


def test_backticks_are_code() -> None:
    assert code("run `make <x>` now") == "run <code>make &lt;x&gt;</code> now"


def test_markers_are_filled_and_filled_again() -> None:
    text = "before\n<!-- a -->\nold\n<!-- end a -->\nafter\n<!-- b --><!-- end b -->"
    once = fill_markers(text, {"a": "| new |", "b": "B", "absent": "x"})
    assert once == "before\n<!-- a -->\n\n| new |\n\n<!-- end a -->\nafter\n<!-- b -->\n\nB\n\n<!-- end b -->"
    assert fill_markers(once, {"a": "| new |", "b": "B"}) == once


def test_a_marker_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="has no '<!-- end a -->'"):
        fill_markers("<!-- a -->\n everything after would be lost", {"a": "x"})


def test_markdown_of_a_table() -> None:
    table = Table("t", "c", ("a", "b"), (("1|2", "3"),))
    assert table.markdown() == "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |"
    assert Table("t", "c", ("a",), ()).markdown() == "(no runs yet)"
