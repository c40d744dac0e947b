"""`fastweights generate`: a text goes on, the same for the same seed, and ends its line whatever happens."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastweights.cli.generate import GenerateOptions, generate
from fastweights.cli.train import train
from fastweights.evaluation import sampling
from tiny_language_model import train_options as options


@pytest.mark.parametrize("tokens", ["words", "characters", "bpe"])
def test_a_text_is_continued_in_the_same_way(text: Path, tokens: str, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text, tokens=tokens, vocabulary_size=300 if tokens == "bpe" else None))
    capsys.readouterr()
    generate(GenerateOptions(text.parent / "run", "the cat", length=15, device="cpu"))
    first = capsys.readouterr().out
    assert first.startswith("the cat")
    generate(GenerateOptions(text.parent / "run", "the cat", length=15, device="cpu"))
    assert capsys.readouterr().out == first


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not the folder of a run"):
        generate(GenerateOptions(tmp_path))


def test_a_vocabulary_that_is_not_the_run_s_is_named(text: Path) -> None:
    train(options(text))
    file = text.parent / "run" / "vocabulary.json"
    for content, message in (("{", "corrupted"), ('{"splitter": "words", "symbols": ["a"]}', "1 symbols, but")):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=rf"vocabulary.json: {message}"):
            generate(GenerateOptions(text.parent / "run"))


def test_a_text_that_breaks_off_ends_its_line(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*given: Any, **others: Any) -> Iterator[int]:
        yield 1
        raise FloatingPointError("too large")

    train(options(text))
    monkeypatch.setattr(sampling, "generate", broken)
    capsys.readouterr()
    with pytest.raises(FloatingPointError, match="too large"):
        generate(GenerateOptions(text.parent / "run", "the cat", device="cpu"))
    assert capsys.readouterr().out == "the cat the\n"


def test_a_length_below_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="length: expected 0 or more, got -1"):
        generate(GenerateOptions(tmp_path, length=-1))


def test_a_prompt_is_read_from_a_file_or_the_standard_input(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(options(text))
    file = text.parent / "prompt.txt"
    file.write_text("the cat", encoding="utf-8")
    capsys.readouterr()
    written = []
    for given in ({"prompt": "the cat"}, {"prompt_file": file}, {"prompt_file": Path("-")}):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the cat")))
        generate(GenerateOptions(text.parent / "run", length=5, device="cpu", **given))
        written.append(capsys.readouterr().out)
    assert written[0].startswith("the cat")
    assert written == [written[0]] * 3
    with pytest.raises(ValueError, match="expected --prompt or --prompt-file, got both"):
        generate(GenerateOptions(text.parent / "run", "the", file))
    file.write_bytes(b"\xff\xff")
    with pytest.raises(ValueError, match=r"prompt.txt: not UTF-8 text"):
        generate(GenerateOptions(text.parent / "run", prompt_file=file))


def test_a_text_beyond_the_length_of_training_is_warned_of(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text))
    capsys.readouterr()
    generate(GenerateOptions(text.parent / "run", "the cat", length=6, device="cpu"))
    assert capsys.readouterr().err == ""
    generate(GenerateOptions(text.parent / "run", "the cat", length=7, device="cpu"))
    assert "warning: the model was trained on texts of 8 words with positions" in capsys.readouterr().err
