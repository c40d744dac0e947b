"""The folder of a trained translator, and folders that are something else."""

from pathlib import Path

import pytest

from fastweights.cli.train import train
from fastweights.experiments.translation.saved import load_translator, tokeniser_of
from tiny_language_model import train_options as language_model_options
from tiny_language_model import write_book
from tiny_translation import train_options


def test_a_translator_comes_back_with_its_tokeniser(pairs: Path) -> None:
    train(train_options(pairs))
    model, task, checkpoint = load_translator(pairs.parent / "run")
    assert task.corpus == "pairs"
    assert checkpoint.step in (2, 4, 6)
    tokeniser = tokeniser_of(pairs.parent / "run")
    assert len(tokeniser) == model.config.vocabulary_size == 280
    (pairs.parent / "run" / "tokeniser.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokeniser.json: corrupted"):
        tokeniser_of(pairs.parent / "run")
    (pairs.parent / "run" / "tokeniser.json").unlink()
    with pytest.raises(ValueError, match=r"there is no tokeniser.json"):
        tokeniser_of(pairs.parent / "run")


def test_the_run_of_another_task_is_named(tmp_path: Path) -> None:
    train(language_model_options(write_book(tmp_path)))
    for read in (load_translator, tokeniser_of):
        with pytest.raises(ValueError, match="the run of another task, not of a translator"):
            read(tmp_path / "run")
    with pytest.raises(ValueError, match="not the folder of a run"):
        load_translator(tmp_path)
