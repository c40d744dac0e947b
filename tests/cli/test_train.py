"""The commands about language models, from a text file to text."""

import json
import math
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fastweights.cli.language_model import evaluate, generate, printable, prompt_tokens, train
from fastweights.cli.main import language_model
from fastweights.cli.options import EvaluateOptions, GenerateOptions, TrainOptions

from fastweights.data.text.corpus import Corpus, open_corpus
from fastweights.data.text.tokenizers import BytePairs, Words
from fastweights.evaluation.perplexity import Score
from fastweights.experiments.language_models.presets import PRESETS
from fastweights.experiments.language_models.task import LanguageModelRun, load_run, preset_run

TINY = (
    "model.model_dim=16",
    "model.num_heads=2",
    "model.num_layers=1",
    "model.feed_forward_dim=16",
    "training.steps=12",
    "training.batch_size=2",
    "training.segment_length=8",
    "training.log_every=1",
    "training.evaluate_every=6",
)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    lines = ["the cat sat on the mat\n", "a dog ran after the cat\n", "\n", "the mat was red\n"] * 30
    (tmp_path / "book.txt").write_text("".join(lines), encoding="utf-8")
    return tmp_path / "book.txt"


def options(text: Path, **changes: Any) -> TrainOptions:
    given = TrainOptions(
        "cpu-linear-delta", str(text), text.parent / "run", set=TINY, cache=text.parent / "cache", device="cpu"
    )
    return replace(given, **changes)


@pytest.mark.parametrize("tokens", ["words", "characters", "bpe"])
def test_train_evaluate_generate(text: Path, tokens: str, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text, tokens=tokens, vocabulary_size=300 if tokens == "bpe" else None))
    said = capsys.readouterr().out
    assert "step 12/12" in said
    assert "valid perplexity" in said
    assert "finished; try `fastweights generate" in said
    result = json.loads((text.parent / "run" / "result.json").read_text())
    assert result["steps"] == 12
    assert result["best_step"] in (6, 12)
    evaluate(EvaluateOptions(text.parent / "run", cache=text.parent / "cache", device="cpu"))
    line = json.loads((text.parent / "run" / "evaluations.jsonl").read_text())
    assert line["context"] == "sliding window of 8, stride 1 (as in the paper)"
    assert line["perplexity"] == pytest.approx(math.exp(line["loss"]))
    corpus = open_corpus(text, load_vocabulary(text).splitter, text.parent / "cache")
    assert line["tokens"] == len(corpus.test) - 1
    capsys.readouterr()
    generate(GenerateOptions(text.parent / "run", "the cat", length=15, device="cpu"))
    first = capsys.readouterr().out
    assert first.startswith("the cat")
    generate(GenerateOptions(text.parent / "run", "the cat", length=15, device="cpu"))
    assert capsys.readouterr().out == first


def load_vocabulary(text: Path) -> Any:
    return language_model._vocabulary(text.parent / "run")


def test_the_same_command_again_says_that_it_is_finished(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text))
    before = (text.parent / "run" / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    train(options(text))
    assert "this run is finished" in capsys.readouterr().out
    assert (text.parent / "run" / "metrics.jsonl").read_bytes() == before


def test_a_signal_ends_with_its_exit_code_and_the_run_goes_on(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        language_model.TrainingDisplay,
        "update",
        lambda self, progress: signal.raise_signal(signal.SIGTERM) if progress.step == 5 else None,
    )
    with pytest.raises(SystemExit) as ended:
        train(options(text))
    assert ended.value.code == 143
    assert "stopped by SIGTERM after step 5, all of it saved" in capsys.readouterr().out
    monkeypatch.undo()
    train(options(text))
    assert "finished; try" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preset": "cpu-liner-delta"}, "preset: unknown name 'cpu-liner-delta'"),
        ({"set": ("training.stepz=3",)}, "unknown field 'stepz' .did you mean 'steps'"),
        ({"set": ("training.steps",)}, "set: expected path=value"),
        ({"set": ("training.steps=0",)}, "steps: expected at least 1"),
        ({"set": ("training.batch_size=100000",)}, "cannot fill 100000 columns"),
        ({"set": (*TINY, "model.num_heads=3")}, "num_heads: expected a positive divisor"),
        ({"set": (*TINY, "model.cutoffs=[9,4]")}, "cutoffs: expected increasing numbers"),
        ({"set": (*TINY, "model.attention.backend=fast")}, "backend: unknown backend 'fast'"),
        ({"set": (*TINY, "training.shuffle=true", "training.seed=-1")}, "seed: expected 0 or more"),
        ({"preset": "cpu-transformer", "set": (*TINY, "training.carry_state=true")}, "carry_state: softmax attention"),
        ({"vocabulary_size": 300}, "vocabulary_size: only byte pairs have one, not words"),
        ({"data": "/nowhere"}, "no such file or folder"),
        ({"device": "tpu9"}, "device"),
        ({"threads": 0}, "threads: expected at least 1"),
    ],
)
def test_a_mistake_is_one_message_and_makes_no_run(text: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(options(text, **change))
    assert not (text.parent / "run").exists()


def test_a_text_that_cannot_be_validated_makes_no_run(text: Path) -> None:
    folder = text.parent / "folder"
    folder.mkdir()
    for split, content in {"train": "abc" * 50, "valid": "a", "test": "abc"}.items():
        (folder / f"{split}.txt").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="valid: a text of 1 character has nothing to predict"):
        train(options(text, data=str(folder), tokens="characters"))
    assert not (text.parent / "run").exists()


def test_another_run_in_the_folder_is_refused(text: Path) -> None:
    train(options(text))
    with pytest.raises(ValueError, match=r"holds another run; training.learning_rate: 0.001 there, 0.5 asked"):
        train(options(text, set=(*TINY, "training.learning_rate=0.5")))


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not the folder of a run"):
        evaluate(EvaluateOptions(tmp_path))
    with pytest.raises(ValueError, match="not the folder of a run"):
        generate(GenerateOptions(tmp_path))


def test_a_vocabulary_that_is_not_the_run_s_is_named(text: Path) -> None:
    train(options(text))
    file = text.parent / "run" / "vocabulary.json"
    for content, message in (("{", "corrupted"), ('{"splitter": "words", "symbols": ["a"]}', "1 symbols, but")):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=rf"vocabulary.json: {message}"):
            generate(GenerateOptions(text.parent / "run"))


def test_a_damaged_checkpoint_is_passed_over_and_named(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text))
    checkpoints = text.parent / "run" / "checkpoints"
    newest = max(checkpoints.glob("step-*"))
    (newest / "model.safetensors").write_bytes(b"")
    assert load_run(text.parent / "run", "newest")[2].step < int(newest.name[5:])
    assert f"{newest / 'model.safetensors'}: 0 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("content", ['{"source": null}', "{}", None])
def test_a_run_that_does_not_know_its_text_asks_for_it(text: Path, content: str | None) -> None:
    train(options(text))
    file = text.parent / "run" / "source.json"
    file.unlink() if content is None else file.write_text(content, encoding="utf-8")
    asked = EvaluateOptions(text.parent / "run", cache=text.parent / "cache", device="cpu")
    with pytest.raises(ValueError, match="does not say where its text is; give it as --data"):
        evaluate(asked)
    evaluate(replace(asked, data=str(text)))


@pytest.mark.parametrize("name", ["vocabulary.json", "source.json"])
def test_a_file_that_a_kill_left_out_is_written_by_the_same_command(text: Path, name: str) -> None:
    train(options(text))
    file = text.parent / "run" / name
    content = file.read_bytes()
    file.unlink()
    train(options(text))
    assert file.read_bytes() == content


def test_a_text_is_opened_once_by_a_single_process(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def counted(*given: Any) -> Corpus:
        opened.append(given)
        return open_corpus(*given)

    monkeypatch.setattr(language_model, "open_corpus", counted)
    train(options(text))
    assert len(opened) == 1


def test_a_score_that_cannot_be_kept_is_still_shown(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text))
    (text.parent / "run" / "evaluations.jsonl").mkdir()
    capsys.readouterr()
    evaluate(EvaluateOptions(text.parent / "run", cache=text.parent / "cache", device="cpu"))
    said, warned = capsys.readouterr()
    assert "test perplexity" in said
    assert warned.startswith("warning: ")
    assert "evaluations.jsonl: could not be written (Is a directory)" in warned


def test_a_loss_that_is_no_number_is_an_error_and_never_written(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(options(text))
    nothing = (Score(math.nan, 8, "any"), 4)
    monkeypatch.setattr(language_model, "evaluate_run", lambda *given: nothing)
    with pytest.raises(FloatingPointError, match="run: the loss on the valid text is nan"):
        evaluate(EvaluateOptions(text.parent / "run", split="valid", cache=text.parent / "cache"))
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
        evaluate(replace(EvaluateOptions(text.parent / "run", cache=text.parent / "cache"), **change))
    assert not (text.parent / "run" / "evaluations.jsonl").exists()


def test_a_run_on_another_text_is_not_evaluated(text: Path) -> None:
    train(options(text))
    other = text.with_name("other.txt")
    other.write_text("something else entirely\n" * 60)
    with pytest.raises(ValueError, match="trained on another text"):
        evaluate(EvaluateOptions(text.parent / "run", data=str(other), cache=text.parent / "cache"))


def test_ways_of_giving_context(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text, set=(*TINY, "training.carry_state=true", "model.positions=false")))
    run = EvaluateOptions(text.parent / "run", "valid", cache=text.parent / "cache", device="cpu")
    for asked, words in [
        (run, "memory carried over the whole text, segments of 8"),
        (replace(run, reach=24), "memory carried over stretches of 24, segments of 8"),
        (replace(run, context="segments", length=5), "independent segments of 5"),
        (replace(run, context="sliding", stride=4), "sliding window of 8, stride 4"),
        (
            replace(run, context="sliding", limit=20),
            "sliding window of 8, stride 1 (as in the paper), first 20 tokens only",
        ),
    ]:
        evaluate(asked)
        assert words in " ".join(capsys.readouterr().out.split())
    lines = (text.parent / "run" / "evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["tokens"] for line in lines][-1] == 19
    with pytest.raises(ValueError, match="reach: only a carried memory has one, not sliding context"):
        evaluate(replace(run, context="sliding", reach=24))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_run_that_json_gives_back(name: str, text: Path) -> None:
    run = preset_run(name, open_corpus(text, cache=text.parent / "cache"))
    assert LanguageModelRun.from_dict(json.loads(json.dumps(run.to_dict()))) == run


def test_the_best_checkpoint_is_loaded_unless_the_newest_is_asked_for(text: Path) -> None:
    train(options(text))
    result = json.loads((text.parent / "run" / "result.json").read_text())
    assert load_run(text.parent / "run")[2].step == result["best_step"]
    assert load_run(text.parent / "run", "newest")[2].step == 12


def test_a_prompt_is_continued_and_not_ended(text: Path) -> None:
    vocabulary = open_corpus(text, cache=text.parent / "cache").vocabulary
    number = vocabulary.numbers
    assert prompt_tokens(vocabulary, "the cat") == [number["the"], number["cat"]]
    assert prompt_tokens(vocabulary, "the cat\n") == [number["the"], number["cat"], 0]
    assert prompt_tokens(vocabulary, "") == [0]


def test_a_prompt_that_is_no_text_is_refused(text: Path) -> None:
    """What a shell passes for bytes that are not UTF-8."""
    for splitter in (Words(), BytePairs(300)):
        vocabulary = open_corpus(text, splitter, text.parent / "cache").vocabulary
        with pytest.raises(ValueError, match="prompt: not UTF-8 text"):
            prompt_tokens(vocabulary, "\udcff the")


def test_a_text_that_breaks_off_ends_its_line(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*given: Any, **others: Any) -> Iterator[int]:
        yield 1
        raise FloatingPointError("too large")

    train(options(text))
    monkeypatch.setattr(language_model, "continuation", broken)
    capsys.readouterr()
    with pytest.raises(FloatingPointError, match="too large"):
        generate(GenerateOptions(text.parent / "run", "the cat", device="cpu"))
    assert capsys.readouterr().out == "the cat the\n"


def test_generated_text_cannot_steer_a_terminal() -> None:
    assert printable("a\x1b[31mb\x07\n\tŌ戦🙂\x9b") == "a�[31mb�\n\tŌ戦🙂�"


def test_a_seed_decides_the_weights_a_model_starts_from(text: Path) -> None:
    for seed in (1, 2):
        train(
            options(
                text, out=text.parent / str(seed), set=(*TINY, f"training.seed={seed}", "training.learning_rate=1e-12")
            )
        )
    first, second = (load_run(text.parent / str(seed))[0].embedding.table for seed in (1, 2))
    assert not torch.allclose(first, second)
