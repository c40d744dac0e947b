"""The demo's language model: plain English in, a text of its own out, trained once."""

from pathlib import Path

import pytest

from fastweights.cli.evaluate import EvaluateOptions, evaluate
from fastweights.experiments.demo import language_model


def test_sentences_are_plain_english() -> None:
    prose = (
        "The “with” statement wraps a *block* (see below), and then it ends; this is a sentence that is long enough."
    )
    grammar = "   with_stmt ::= 'with' with_item ('.' with_item)*: a grammar that goes on and on and on and on."
    text = f"Heading\n*******\n\n{prose}\n\n{grammar}\n"
    assert list(language_model.sentences(text)) == [
        "the with statement wraps a *block* ( see below ) , and then it ends ; this is a sentence that is long enough ."
    ]


def test_the_language_model_is_trained_once_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(language_model, "STEPS", 4)
    monkeypatch.setattr(language_model, "LENGTH", 5)
    written = language_model.run(tmp_path)
    assert written.text in capsys.readouterr().out
    assert written.text.startswith("the value of ")
    # Two layers of eight heads, each with values of 16 under 32 features.
    assert written.memory == 2 * 8 * 16 * 32
    again = language_model.run(tmp_path)
    assert again == written
    assert "step" not in capsys.readouterr().out
    evaluate(EvaluateOptions(tmp_path / "language-model", limit=50, cache=tmp_path / "cache", device="cpu"))
    assert "test perplexity" in capsys.readouterr().out
