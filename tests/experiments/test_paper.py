"""The report of everything: from one record or from all, the same every time, with one's own runs in it."""

import re
from pathlib import Path

import pytest

from fastweights.experiments.families import codec
from fastweights.experiments.paper import commands_table, origins, other_runs, paper_report, update_files
from fastweights.experiments.records import load
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.presets import preset
from retrieval_records import record, records_as_published
from shown_figures import show_only

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_whole_report_is_the_same_every_time(tmp_path: Path) -> None:
    as_published = records_as_published()
    backwards = dict(reversed(as_published.items()))
    document = tmp_path / "document.md"
    written = []
    for records in (as_published, backwards):
        report = paper_report(records)
        document.write_text("<!-- capacity --><!-- end capacity --> <!-- claims --><!-- end claims -->")
        update_files(report, [document])
        report.save_figures(tmp_path / "figures")
        figures = {path.name: path.read_bytes() for path in sorted((tmp_path / "figures").iterdir())}
        written.append((report.html(), document.read_text(), figures))
    assert written[0] == written[1]
    assert len(written[0][2]) == 18
    assert "| DPFP-3 | 384 | 380 | 380 | 0 | 600 | 0.198 | 0.198 | +0.000 | 17 of 17 |" in written[0][1]


@pytest.mark.slow
def test_the_documents_say_what_the_records_say(tmp_path: Path) -> None:
    copies = []
    names = ("README.md", "docs/reproducing.md", "docs/recall.md", "docs/looking_inside.md")
    for name in names:
        copies.append(tmp_path / Path(name).name)
        copies[-1].write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    update_files(paper_report(load(ROOT / "results")), copies)
    for copy, name in zip(copies, names, strict=True):
        assert copy.read_text(encoding="utf-8") == (ROOT / name).read_text(encoding="utf-8")


def test_a_report_can_be_made_of_one_record() -> None:
    run = preset("capacity", "dpfp1", "sum", 20, 1, AS_PUBLISHED)
    own = codec().changed(run, ["learning_rate=0.005"])
    html = paper_report({run: record(run), own: record(own)}).html()
    assert "Other runs" in html
    assert codec().name(own).rpartition("-")[2] in html
    assert re.search(r"1 of 204", html)


def test_the_order_of_sections_is_that_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    show_only(monkeypatch, retrieval=("figure3",), language_models=("table2",))
    titles = [section.title for section in paper_report({}).sections]
    assert titles == [
        "Figure 3: learning to overwrite",
        "Table 2: update rules",
        "Commands",
        "Claims of the paper",
        "What a review asked, and what came out",
        "What later work says",
        "Trials, and what became of them",
        "Where text and logs disagree",
    ]


def test_every_figure_and_table_has_its_command() -> None:
    own = preset("capacity", "dpfp1", "sum", 20, 1, AS_PUBLISHED)
    rows = {row[0]: row[1:] for row in commands_table({own: record(own)}).rows}
    assert rows["Figure 1"] == ("`fastweights reproduce figure1`", "nothing to train", "–", "–")
    assert rows["Figure 2"] == ("`fastweights reproduce figure2`", "1 of 204", "8 s", "25 runs")
    assert rows["Table 4"] == ("`fastweights reproduce table4 --threads 1`", "0 of 17", "0 s", "–")


def test_runs_of_ones_own_are_listed_with_how_they_ended() -> None:
    run = preset("capacity", "dpfp1", "sum", 20, 1, AS_PUBLISHED)
    own, broken = (codec().changed(run, [change]) for change in ("learning_rate=0.005", "learning_rate=9.0"))
    table = other_runs({run: record(run), own: record(own, 0.125), broken: record(broken, None)})
    assert table is not None
    assert sorted(row[1:4] for row in table.rows) == [
        ("0.125", "200", "patience"),
        ("not a number", "200", "patience"),
    ]
    assert other_runs({run: record(run)}) is None


def test_the_summary_counts_the_records_of_each_family() -> None:
    run = preset("capacity", "dpfp1")
    assert origins({run: record(run)}) == (
        "1 records of finished synthetic runs, 0 of them solved to the stopping loss, and from 0 records of "
        "translators, and from 0 records of translated documents, and from 0 records of language models, and from "
        "0 records of recall and state tracking, and from "
        "0 records of question answering, and from 0 records with pictures"
    )
