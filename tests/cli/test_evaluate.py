"""`fastweights evaluate`: the perplexity of a trained model, in every context, kept in the folder of the run."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fastweights.cli.evaluate import evaluate
from fastweights.cli.train import train
from fastweights.data.text.corpus import open_corpus
from fastweights.evaluation.perplexity import Score
from fastweights.experiments.language_models import evaluate as family
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.experiments.options import EvaluateOptions
from fastweights.kernels import products
from tiny_language_model import TINY
from tiny_language_model import train_options as options


def asked(text: Path, **changes: Any) -> EvaluateOptions:
    return replace(EvaluateOptions(text.parent / "run", cache=text.parent / "cache", device="cpu"), **changes)


@pytest.mark.parametrize("tokens", ["words", "characters", "bpe"])
def test_the_perplexity_is_said_and_kept(text: Path, tokens: str, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text, tokens=tokens, vocabulary_size=300 if tokens == "bpe" else None))
    evaluate(asked(text))
    line = json.loads((text.parent / "run" / "evaluations.jsonl").read_text())
    assert line["context"] == "sliding window of 8, stride 1 (as in the paper)"
    assert line["perplexity"] == pytest.approx(math.exp(line["loss"]))
    assert f"test perplexity {line['perplexity']:.2f} per " in capsys.readouterr().out
    corpus = open_corpus(text, vocabulary_of(text.parent / "run").tokenizer, text.parent / "cache")
    assert line["tokens"] == len(corpus.test) - 1


def test_onednn_multiplies_where_mkl_falls_short(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(options(text))
    seen, score_of = [], family.score_of
    monkeypatch.setattr(products, "mkl_falls_short", lambda: True)
    monkeypatch.setattr(family, "score_of", lambda *args: seen.append(products.are_replaced()) or score_of(*args))
    evaluate(asked(text))
    assert seen == [True]
    assert not products.are_replaced()


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not the folder of a run"):
        evaluate(EvaluateOptions(tmp_path))


@pytest.mark.parametrize("content", ['{"source": null}', "{}", None])
def test_a_run_that_does_not_know_its_text_asks_for_it(text: Path, content: str | None) -> None:
    train(options(text))
    file = text.parent / "run" / "source.json"
    file.unlink() if content is None else file.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="does not say where its data is; give it as --data"):
        evaluate(asked(text))
    evaluate(asked(text, data=str(text)))


def test_a_score_that_cannot_be_kept_is_still_shown(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text))
    (text.parent / "run" / "evaluations.jsonl").mkdir()
    capsys.readouterr()
    evaluate(asked(text))
    said, warned = capsys.readouterr()
    assert "test perplexity" in said
    assert warned.startswith("warning: ")
    assert "evaluations.jsonl: could not be written (Is a directory)" in warned


def test_a_loss_that_is_no_number_is_an_error_and_never_written(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(options(text))
    nothing = (Score(math.nan, 8, "any"), 4)
    monkeypatch.setattr(family, "score_of", lambda *given: nothing)
    with pytest.raises(FloatingPointError, match="run: the loss on the valid text is nan"):
        evaluate(asked(text, split="valid"))
    assert not (text.parent / "run" / "evaluations.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limit": -5}, "limit: expected at least 2 tokens, got -5"),
        ({"limit": 0}, "limit: expected at least 2 tokens, got 0"),
        ({"length": 0}, "length and batch_size: expected at least 1, got 0"),
        ({"context": "carried", "stride": 2}, "stride: only a sliding window has one, not carried context"),
        ({"context": "segments", "stride": 2}, "stride: only a sliding window has one, not segments context"),
    ],
)
def test_what_an_evaluation_cannot_mean_is_refused(text: Path, change: dict[str, Any], message: str) -> None:
    train(options(text))
    with pytest.raises(ValueError, match=message):
        evaluate(asked(text, **change))
    assert not (text.parent / "run" / "evaluations.jsonl").exists()


def test_a_text_that_has_changed_is_not_the_one_of_the_run(text: Path) -> None:
    train(options(text))
    text.write_text("something else entirely\n" * 60)
    with pytest.raises(ValueError, match=r"trained on another text than .*book.txt is now"):
        evaluate(asked(text))


def test_another_text_is_measured_as_its_words_are_one_by_one(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A word that only the test text has makes the vocabulary one with <unk>.
    text.write_text(text.read_text() + "the end\n" * 4)
    train(options(text))
    other = text.with_name("other.txt")
    other.write_text("the cat sat\nzebra ran\n")
    model, _, _ = load_language_model(text.parent / "run")
    numbers = vocabulary_of(text.parent / "run").token_ids
    ids = [numbers[word] for word in ("the", "cat", "sat", "<eos>", "<unk>", "ran", "<eos>")]

    def log_probability(context: list[int], word: int) -> float:
        """log p(word | context), from the whole context and the whole softmax."""
        with torch.no_grad():
            return float(model.log_probabilities(model(torch.tensor([context]))[0])[0, -1, word])

    # The first token that each prediction sees: the start of its segment or window, or of the text.
    firsts = {"segments": lambda i: (i - 1) // 4 * 4, "sliding": lambda i: max(0, i - 4), "carried": lambda i: 0}
    for context, first in firsts.items():
        evaluate(asked(text, data=str(other), context=context, length=4))
        line = json.loads((text.parent / "run" / "evaluations.jsonl").read_text().splitlines()[-1])
        assert (line["text"], line["unknown"], line["tokens"]) == (str(other), 1 / 7, 6)
        assert "of which 14.29 % are unknown words, perplexity" in capsys.readouterr().out
        losses = [-log_probability(ids[first(i) : i], ids[i]) for i in range(1, len(ids))]
        assert line["loss"] == pytest.approx(sum(losses) / 6, rel=1e-5)


def test_another_text_may_be_a_folder_compressed(text: Path) -> None:
    train(options(text))
    folder = text.with_name("folder")
    folder.mkdir()
    for split, content in {"train": "a dog\n", "valid": "the cat\n", "test": "the mat\na dog ran\n"}.items():
        (folder / f"{split}.txt.gz").write_bytes(gzip.compress(content.encode()))
    evaluate(asked(text, data=str(folder)))
    line = json.loads((text.parent / "run" / "evaluations.jsonl").read_text())
    assert (line["unknown"], line["tokens"]) == (0.0, 6)


def test_unknown_words_without_a_symbol_for_them_are_named(text: Path) -> None:
    train(options(text))
    other = text.with_name("other.txt")
    other.write_text("the cat met a zebra\n")
    with pytest.raises(ValueError, match=r"other.txt: 'met' is not one of the 12 words of the training text"):
        evaluate(asked(text, data=str(other)))
    other.write_text("\n")
    with pytest.raises(ValueError, match=r"other.txt: a text of 1 words has nothing to predict"):
        evaluate(asked(text, data=str(other)))


def test_ways_of_giving_context(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text, set=(*TINY, "training.carry_state=true", "model.positions=false")))
    run = asked(text, split="valid")
    for given, words in [
        (run, "memory carried over the whole text, segments of 8"),
        (replace(run, reach=24), "memory carried over stretches of 24, segments of 8"),
        (replace(run, context="segments", length=5), "independent segments of 5"),
        (replace(run, context="sliding", stride=4), "sliding window of 8, stride 4"),
        (
            replace(run, context="sliding", limit=20),
            "sliding window of 8, stride 1 (as in the paper), first 20 tokens only",
        ),
    ]:
        evaluate(given)
        assert words in " ".join(capsys.readouterr().out.split())
    lines = (text.parent / "run" / "evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["tokens"] for line in lines][-1] == 19
    with pytest.raises(ValueError, match="reach: only a carried memory has one, not sliding context"):
        evaluate(replace(run, context="sliding", reach=24))


@pytest.mark.parametrize("tokens", ["words", "characters", "bpe"])
def test_a_text_of_one_s_own_is_measured_in_the_vocabulary_of_the_run(text: Path, tokens: str) -> None:
    train(options(text, tokens=tokens, vocabulary_size=300 if tokens == "bpe" else None))
    evaluate(asked(text, split="valid", context="segments"))
    vocabulary = vocabulary_of(text.parent / "run")
    corpus = open_corpus(text, vocabulary.tokenizer, text.parent / "cache")
    own = text.parent / "own.txt"
    own.write_text("".join(vocabulary.decode(int(number) for number in corpus.valid)), encoding="utf-8")
    evaluate(asked(text, context="segments", data=str(own)))
    first, second = map(json.loads, (text.parent / "run" / "evaluations.jsonl").read_text().splitlines())
    assert (second["text"], second["unknown"]) == (str(own), 0.0)
    assert second["loss"] == pytest.approx(first["loss"], rel=1e-6)
    assert second["tokens"] == first["tokens"]


def test_a_folder_with_one_split_is_enough(text: Path) -> None:
    train(options(text))
    folder = text.with_name("only")
    folder.mkdir()
    (folder / "test.txt").write_text("the mat\na dog ran\n")
    evaluate(asked(text, data=str(folder)))
    line = json.loads((text.parent / "run" / "evaluations.jsonl").read_text())
    assert line["tokens"] == 6
    with pytest.raises(ValueError, match="only: there is no valid text"):
        evaluate(asked(text, data=str(folder), split="valid"))


def test_unknown_words_are_counted_where_they_are_scored(text: Path) -> None:
    text.write_text(text.read_text() + "the end\n" * 4)
    train(options(text))
    other = text.with_name("other.txt")
    other.write_text("the <unk> sat\n" + "zebra\n" * 50)
    evaluate(asked(text, data=str(other), limit=4))
    line = json.loads((text.parent / "run" / "evaluations.jsonl").read_text().splitlines()[-1])
    assert line["unknown"] == 1 / 4
