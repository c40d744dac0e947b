"""`fastweights look`: runs, Hugging Face folders, and one clear line for everything else."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fastweights.cli.program import main
from fastweights.cli.train import train
from tiny_language_model import TINY, train_options

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def run(text: Path) -> Path:
    train(train_options(text, set=(*TINY, "training.steps=2", "training.evaluate_every=2")))
    return text.parent / "run"


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit):
        main(["look", *map(str, arguments)])
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def test_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["look", str(run), "--limit", "60", "--out", "page.html"])
    printed = capsys.readouterr().out
    assert "layer 0" in printed
    assert "The page is page.html" in printed
    assert "<canvas" in Path("page.html").read_text()


@pytest.mark.slow
def test_a_hugging_face_folder(run: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    from fastweights.experiments.language_models.saved import load_language_model
    from fastweights.hf import FastWeightForCausalLM

    folder = run.parent / "hf"
    FastWeightForCausalLM.of(load_language_model(run)[0]).save_pretrained(folder)
    capsys.readouterr()  # transformers says how far it is
    assert "give one with --text FILE" in refused(capsys, folder)
    assert "neither a tokenizer.json nor a vocabulary.json" in refused(capsys, folder, "--text", text)
    (folder / "vocabulary.json").write_text((run / "vocabulary.json").read_text())
    whole = json.loads((run / "vocabulary.json").read_text())
    (folder / "vocabulary.json").write_text(json.dumps(whole | {"symbols": [*whole["symbols"], "zebra"]}))
    assert "vocabulary.json: it has" in refused(capsys, folder, "--text", text)
    (folder / "vocabulary.json").write_text("{")
    assert "vocabulary.json: not a vocabulary" in refused(capsys, folder, "--text", text)
    (folder / "vocabulary.json").write_text(json.dumps(whole))
    main(["look", str(folder), "--text", str(text), "--limit", "60", "--out", "hf.html"])
    assert "The page is hf.html" in capsys.readouterr().out
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    assert "a model of the type 'gpt2'" in refused(capsys, folder, "--text", text)


def test_what_cannot_be_looked_into_is_one_line(run: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strange, broken = text.parent / "strange.txt", text.parent / "broken.txt"
    strange.write_text("colourless green ideas sleep furiously\n" * 5)
    broken.write_bytes(b"\xff\xfe\x00")
    line = refused(capsys, run, "--text", strange)
    assert "unknown to the model" in line or "is not one of the" in line
    assert "not UTF-8 text" in refused(capsys, run, "--text", broken)
    assert "there is no such folder" in refused(capsys, "nowhere")
    assert "neither the folder of a run" in refused(capsys, text.parent)
    assert "split: expected valid or test" in refused(capsys, run, "--split", "train")
    assert "window:" in refused(capsys, run, "--window", 10_000)
    assert "out:" in refused(capsys, run, "--out", text.parent)


def test_a_model_without_fast_weights_is_refused(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ("training.steps=1", "training.evaluate_every=1")
    options = train_options(text, set=(*TINY, *changes))
    train(replace(options, preset="cpu-transformer"))
    assert "has no fast-weight layer to record" in refused(capsys, text.parent / "run")
