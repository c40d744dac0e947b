"""Training on documents: what is carried where, and that a run resumes to the same bits."""

import json
from pathlib import Path

import pytest
import torch

from fastweights.evaluation.documents import read_sentence
from fastweights.experiments.carry_out import Stopped, carry_out
from fastweights.experiments.documents.presets import for_data, preset
from fastweights.experiments.documents.task import DocumentsTask
from fastweights.experiments.families import codec
from fastweights.experiments.records import load
from fastweights.models.translator import Translator
from fastweights.runs.record import run_folder
from fastweights.training.run import Run
from fastweights.training.task import Share
from tiny_translation import write_pairs

TINY = (
    *(f"model.{name}=1" for name in ("encoder_layers", "decoder_layers")),
    *(f"model.{change}" for change in ("model_dim=16", "num_heads=2", "feed_forward_dim=16", "vocabulary_size=280")),
    *(f"training.{change}" for change in ("steps=7", "batch_size=6", "evaluate_every=3", "warmup_steps=0")),
    *("training.log_every=1", "document=4"),
)


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_pairs(tmp_path)


def tiny(pairs: Path, model: str, *changes: str) -> Run:
    return for_data(codec().changed(preset("documents", model), (*TINY, *changes)), str(pairs))


def opened(pairs: Path, model: str, *changes: str) -> DocumentsTask:
    run = tiny(pairs, model, *changes)
    task = run.task.open(run.training, str(pairs))
    assert isinstance(task, DocumentsTask)
    return task


def losses(task: DocumentsTask, model: Translator, steps: int) -> list[float]:
    states, found = None, []
    for step in range(steps):
        loss, states = task.loss(model, task.batch(step, Share()), states)
        found.append(loss.item())
    return found


def test_memories_go_on_inside_a_document_only(pairs: Path) -> None:
    carried, alone = (opened(pairs, model, "model.dropout=0") for model in ("delta", "delta-alone"))
    model = carried.build().double()
    together, apart = (losses(task, model, 10) for task in (carried, alone))
    same = [a == b for a, b in zip(together, apart, strict=True)]
    assert same == [True, False, False, False, True, False, False, False, True, False]
    assert [carried.starts_anew(step) for step in (0, 3, 4, 9, 10, 13, 14)] == [
        True,
        False,
        True,
        False,
        True,
        False,
        True,
    ]
    assert all(alone.starts_anew(step) for step in range(10))


def test_gradients_end_where_a_sentence_begins(pairs: Path) -> None:
    task = opened(pairs, "gated-centred", "model.dropout=0")
    model = task.build().double()
    _, states = task.loss(model, task.batch(0, Share()), None)
    assert states is not None
    assert not any(tensor.requires_grad for state in states for tensor in state.tensors().values())
    assert not any(state.steps.any() for state in states), "places are counted from the start of a sentence"
    batch, _ = task.batch(1, Share())
    hidden, _ = read_sentence(model, batch, states)
    loss, _ = task.loss(model, task.batch(1, Share()), states)
    torch.testing.assert_close(loss, model.losses(hidden, batch.labels, 0.1).sum() / batch.tokens)


def test_shares_average_to_the_whole(pairs: Path) -> None:
    task = opened(pairs, "delta", "model.dropout=0")
    model = task.build().double()
    whole, _ = task.loss(model, task.batch(0, Share()), None)
    parts = [task.loss(model, task.batch(0, Share(part, 3)), None)[0] for part in range(3)]
    torch.testing.assert_close(torch.stack(parts).mean(), whole, rtol=1e-12, atol=0)


def test_interrupted_it_resumes_to_the_same_record(pairs: Path, tmp_path: Path) -> None:
    run, data = tiny(pairs, "delta"), str(pairs)
    whole = carry_out(run, tmp_path / "whole", data=data)
    calls = iter(range(1000))
    with pytest.raises(Stopped):
        carry_out(run, tmp_path / "stopped", data=data, interrupted=lambda: next(calls) > 4)
    resumed = carry_out(run, tmp_path / "stopped", data=data)
    assert whole is not None
    assert resumed is not None
    name = codec().name(run)
    lines = [(run_folder(tmp_path / place, name) / "metrics.jsonl").read_bytes() for place in ("whole", "stopped")]
    assert lines[0] == lines[1]
    assert [json.loads(line).get("step") for line in lines[0].splitlines()][-1] == 7
    assert whole.result["readings"] == resumed.result["readings"]
    assert load(tmp_path / "stopped")[run] == resumed


def test_the_record_has_both_readings_of_every_text(pairs: Path, tmp_path: Path) -> None:
    carried, alone = (
        carry_out(tiny(pairs, model), tmp_path / "results", data=str(pairs)) for model in ("delta", "delta-alone")
    )
    assert carried is not None
    assert alone is not None
    assert list(carried.result["readings"]) == ["val", "test_a", "test_b"]
    assert all(list(found) == ["carried", "alone"] for found in carried.result["readings"].values())
    assert list(alone.result["readings"]["val"]) == ["alone"]
    reading = carried.result["readings"]["val"]["carried"]
    assert (reading["sentences"], [count > 0 for count in reading["tokens"]]) == (6, [True] * 4), "a whole document"
    assert reading["sums"] != carried.result["readings"]["val"]["alone"]["sums"]
    assert reading["loss"] == pytest.approx(sum(reading["sums"]) / sum(reading["tokens"]), rel=1e-5)
    assert carried.result["best_loss"] == pytest.approx(reading["loss"], rel=1e-5)
    assert (carried.result["pairs"], carried.result["left_out"]) == (60, 0)


def test_texts_are_read_in_whole_documents(pairs: Path) -> None:
    """Six validation pairs are one stretch for documents of four, and two for documents of three."""
    assert [opened(pairs, "delta", f"document={n}").measured["val"].columns for n in (4, 3, 50)] == [1, 2, 1]


def test_softmax_attention_reads_sentences_alone(pairs: Path) -> None:
    task = opened(pairs, "delta-alone", "model.decoder_attention=softmax")
    model = task.build()
    loss, states = task.loss(model, task.batch(0, Share()), None)
    assert loss.isfinite()
    assert states is None
    assert task.evaluate(model.eval(), 0, lambda: False) is not None
    with pytest.raises(ValueError, match="carried: softmax attention keeps every step"):
        opened(pairs, "delta", "model.decoder_attention=softmax").build()


def test_what_cannot_be_is_refused(pairs: Path) -> None:
    with pytest.raises(ValueError, match=r"vocabulary_size: the text has \d+ byte pairs, not 4000; possible: --set"):
        opened(pairs, "delta", "model.vocabulary_size=4000")
    with pytest.raises(ValueError, match="batch_size: 60 of 60 pairs"):
        opened(pairs, "delta", "training.batch_size=61")
    run = tiny(pairs, "delta")
    with (pairs / "train.en").open("a") as source, (pairs / "train.de").open("a") as target:
        source.write("a dog\n")
        target.write("ein Hund\n")
    with pytest.raises(ValueError, match="run: it is that of other pairs"):
        run.task.open(run.training, str(pairs))
