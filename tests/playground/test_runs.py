"""The models that the page was given, and no others."""

from pathlib import Path

import pytest

from fastweights.cli.train import train
from fastweights.playground.runs import Runs
from tiny_language_model import TINY, train_options, write_book

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    train(train_options(write_book(tmp_path), set=(*TINY, "training.steps=1", "training.evaluate_every=1")))
    return tmp_path / "run"


def test_runs_have_names(run: Path) -> None:
    runs = Runs([run, run])
    assert list(runs.language_models) == ["run", "run (2)"]
    model, vocabulary = runs.language_model("run")
    assert not model.training
    assert "cat" in vocabulary.token_ids


def test_nothing_else_can_be_opened(run: Path, tmp_path: Path) -> None:
    runs = Runs([run])
    for name in (str(run), "../run", ""):
        with pytest.raises(ValueError, match="this page was not given"):
            runs.language_model(name)
    with pytest.raises(ValueError, match="possible: none"):
        runs.translator("run")
    with pytest.raises(ValueError, match="no such folder"):
        Runs([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match=r"config\.json"):
        Runs([tmp_path])
