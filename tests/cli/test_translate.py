"""`fastweights translate`: one line in, one line out, in order; and `evaluate` and `export` of a translator."""

import io
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fastweights.hf  # noqa: F401  it tells transformers about the model
from fastweights.cli.evaluate import evaluate
from fastweights.cli.export import export
from fastweights.cli.train import train
from fastweights.cli.translate import TranslateOptions, translate
from fastweights.evaluation.bleu import read_lines, score_translations
from fastweights.evaluation.translate import Search
from fastweights.evaluation.translate import translate as translations
from fastweights.experiments.options import EvaluateOptions
from fastweights.experiments.translation.saved import load_translator, tokeniser_of
from tiny_translation import sentences, train_options, write_pairs


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train(train_options(write_pairs(folder)))
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A copy of a trained run, beside a copy of its pairs."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    capsys.readouterr()
    return tmp_path / "run"


def expected(run: Path, lines: list[str], search: Search, **how: Any) -> list[str]:
    model, _, _ = load_translator(run)
    found = translations(model, tokeniser_of(run), lines, search, **how)
    return [line.text if not how else f"{line.log_probability:.4f}\t{line.text}" for line in found]


def test_a_file_is_translated_line_by_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["a dog", "", "a old cat likes a man", "  "]
    (tmp_path / "text.en").write_text("\r\n".join(lines) + "\n", encoding="utf-8-sig")
    translate(TranslateOptions(run, str(tmp_path / "text.en"), beam=2, length_penalty=1.0))
    out = capsys.readouterr().out.split("\n")
    assert out == [*expected(run, lines, Search(2, 1.0)), ""]
    assert out[1] == out[3] == ""


def test_standard_input_is_answered_as_it_comes(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the second line is read, the first is translated."""
    printed = []

    def lines() -> Any:
        yield b"a dog\n"
        printed.append(capsys.readouterr().out)
        yield b"a cat"

    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": lines()}))
    translate(TranslateOptions(run, beam=1, scores=True))
    first, second = expected(run, ["a dog", "a cat"], Search(1), scores=True)
    assert printed == [f"{first}\n"]
    assert capsys.readouterr().out == f"{second}\n"


def test_mistakes_are_one_line(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no such file; - is standard input"):
        translate(TranslateOptions(run, "nowhere.txt"))
    with pytest.raises(ValueError, match="beams: expected at least 1, got 0"):
        translate(TranslateOptions(run, beam=0))
    with pytest.raises(ValueError, match="not the folder of a run"):
        translate(TranslateOptions(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"fine\n\xff\n")))
    with pytest.raises(ValueError, match="standard input: line 2 is not UTF-8 text"):
        translate(TranslateOptions(run, beam=1))


@pytest.mark.slow
def test_a_very_long_line_is_translated(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "long.en").write_text("dog " * 100 + "\na cat\n")
    translate(TranslateOptions(run, str(tmp_path / "long.en"), beam=1))
    assert capsys.readouterr().out.count("\n") == 2


def asked(run: Path, **changes: Any) -> EvaluateOptions:
    given = EvaluateOptions(run, data=str(run.parent / "pairs"), cache=run.parent / "cache", device="cpu")
    return replace(given, **changes)


def test_evaluate_scores_a_test_set_and_keeps_the_translations(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(asked(run))
    kept = json.loads((run / "evaluations.jsonl").read_text())
    references = read_lines(run.parent / "pairs" / "test_a.de")
    score = score_translations(read_lines(run / "test_a.beam4.de"), references)
    assert (kept["split"], kept["bleu"], kept["signature"]) == ("test_a", score.bleu, score.signature)
    assert f"test_a BLEU {score.bleu:.2f} (brevity penalty" in capsys.readouterr().out
    evaluate(asked(run, split="test_b", beam=1, limit=3))
    assert len(read_lines(run / "test_b.beam1.de")) == 3


def test_evaluate_takes_a_test_set_of_ones_own(run: Path, tmp_path: Path) -> None:
    (tmp_path / "own.en").write_text("".join(f"{line}\n" for line in sentences(3, 20)))
    (tmp_path / "own.de").write_text("ein Hund\n" * 3)
    evaluate(asked(run, reference=(tmp_path / "own.en", tmp_path / "own.de")))
    assert len(read_lines(run / "own.beam4.de")) == 3
    (tmp_path / "own.de").write_text("ein Hund\n")
    with pytest.raises(ValueError, match=r"own.en has 3 lines and .*own.de has 1: expected as many"):
        evaluate(asked(run, reference=(tmp_path / "own.en", tmp_path / "own.de")))


def test_evaluate_refuses_what_means_nothing_here(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stride: a translator has no such thing"):
        evaluate(asked(run, stride=4))
    with pytest.raises(ValueError, match="split: 'nowhere' has no raw lines; possible: val, test_a, test_b"):
        evaluate(asked(run, split="nowhere"))
    with pytest.raises(ValueError, match="limit: expected at least 1 sentence"):
        evaluate(asked(run, limit=0))
    (run.parent / "pairs" / "train.de").write_text("x\n" * 60)
    with pytest.raises(ValueError, match="trained on other pairs than"):
        evaluate(asked(run))


def test_an_exported_translator_translates_as_we_do(run: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    export(run, tmp_path / "hf")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    lines = ["a dog sees a cat", "a man"]
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    # A model that knows nothing writes on and on: both end at the same place.
    generated = model.generate(**batch, max_new_tokens=30, forced_eos_token_id=tokenizer.eos_token_id)
    found = tokenizer.batch_decode(generated, skip_special_tokens=True)
    assert found == expected(run, lines, Search(4, 0.6, longest_ratio=0.0, longest_extra=30))
    with pytest.raises(ValueError, match="it exists already"):
        export(run, tmp_path / "hf")


def test_what_cannot_be_exported_is_said(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastweights.experiments.families.find_spec", lambda module: None)
    with pytest.raises(ValueError, match="this task cannot be exported; possible: language models and translators"):
        export(run, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
