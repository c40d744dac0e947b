"""The script of the documentation's figure is what the command makes, small, and loads nothing."""

from pathlib import Path

from fastweights.experiments.demo.memory import BLUE, ORANGE, PURPLE
from fastweights.playground.figure.script import figure_script

FILE = Path(__file__).parents[3] / "docs" / "javascripts" / "figure.js"


def test_the_file_in_the_documentation_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == figure_script(), (
        "run `python -m fastweights.playground.figure docs/javascripts/figure.js`"
    )


def test_it_is_a_few_kilobytes_and_loads_nothing() -> None:
    script = figure_script()
    assert len(script.encode()) < 10_000
    for loading in ("http", "import(", "fetch(", "src=", "eval("):
        assert loading not in script


def test_its_colours_are_those_of_the_page() -> None:
    for colour in (BLUE, PURPLE, ORANGE):
        assert str(list(bytes.fromhex(colour[1:]))).replace(" ", "") in figure_script()
