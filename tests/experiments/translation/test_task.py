"""A translator's run: its loss, its batches, what it leaves, and that it resumes to the same bits."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fastweights.cli.train import train
from fastweights.data.translation import open_translation
from fastweights.data.translation_tokeniser import JointBytePairs
from fastweights.evaluation.bleu import read_lines, score_translations
from fastweights.evaluation.translate import Search, translate
from fastweights.experiments.carry_out import carry_out
from fastweights.experiments.families import codec
from fastweights.experiments.options import DataOptions
from fastweights.experiments.records import load
from fastweights.experiments.translation.presets import PRESETS, on_data
from fastweights.experiments.translation.saved import load_translator, tokeniser_of
from fastweights.experiments.translation.task import TranslationTask
from fastweights.models.translator import Translator
from fastweights.runs.checkpoint import newest_checkpoint
from fastweights.runs.record import run_folder
from fastweights.training.execute import Execution
from fastweights.training.run import Run
from fastweights.training.task import Share, Task
from tiny_translation import TINY, sentences, train_options, translated


def prepared(pairs: Path, *changes: str, preset: str = "translation-cpu-dpfp2") -> tuple[Run, Task[Any]]:
    run, make = on_data(PRESETS[preset], DataOptions(data=str(pairs), vocabulary_size=280))
    run = codec().changed(run, (*TINY, "model.dropout=0", *changes))
    return run, make(run)


def test_the_loss_is_that_per_real_target_token(pairs: Path) -> None:
    """Against the definition, sentence by sentence without padding, and smoothed as in the recipe."""
    run, task = prepared(pairs, preset="translation-cpu-linear")
    assert isinstance(task, TranslationTask)
    model = task.build().double()
    batch = next(batch for step in range(20) if not (batch := task.batch(step, Share())).source_mask.all())
    assert (batch.labels < 0).any(), "a batch without padding would test nothing"
    found, _ = task.loss(model, batch, None)
    total, tokens = torch.zeros((), dtype=torch.float64), 0
    for source, mask, inputs, labels in zip(batch.source, batch.source_mask, batch.inputs, batch.labels, strict=True):
        real = labels >= 0
        hidden = model(source[mask][None], inputs[real][None])
        log_p = model.log_probabilities(hidden)[0]
        words, share = log_p.shape[1], 0.1 / (log_p.shape[1] - 1)
        right = log_p[torch.arange(int(real.sum())), labels[real]]
        total = total - ((1 - 0.1 - share) * right + share * log_p.sum(1)).sum()
        tokens += int(real.sum())
        assert words == run.task.model.vocabulary_size  # type: ignore[attr-defined]
    torch.testing.assert_close(found, total / tokens, rtol=1e-10, atol=0)


def test_a_run_of_other_languages_is_refused(pairs: Path) -> None:
    with pytest.raises(ValueError, match=r"run: it is that of other pairs, languages .*possible: --source"):
        prepared(pairs, "source=fr")


def test_parts_of_different_length_average_to_the_whole(pairs: Path) -> None:
    _, task = prepared(pairs)
    model = task.build().double()
    whole, _ = task.loss(model, task.batch(3, Share()), None)
    parts = [task.loss(model, task.batch(3, Share(part, 3)), None)[0] for part in range(3)]
    assert len({task.batch(3, Share(part, 3)).tokens for part in range(3)}) > 1
    torch.testing.assert_close(torch.stack(parts).mean(), whole, rtol=1e-10, atol=0)


@pytest.mark.slow
def test_the_record_holds_what_the_best_step_scores(pairs: Path, tmp_path: Path) -> None:
    run, task = prepared(pairs)
    record = carry_out(run, tmp_path / "results", task=task)
    assert record is not None
    folder = run_folder(tmp_path / "results", codec().name(run))
    model, _, checkpoint = load_translator(folder)
    assert record.result["evaluated_step"] == record.result["best_step"] == checkpoint.step
    corpus = open_translation(pairs, run.task.languages, JointBytePairs(280))  # type: ignore[attr-defined]
    assert list(record.result["scores"]) == ["val", "test_a", "test_b"]
    for split, score in record.result["scores"].items():
        sources, references = corpus.lines(split)
        found = [line.text for line in translate(model, tokeniser_of(folder), sources, Search(4, 0.6))]
        assert read_lines(folder / f"{split}.de") == found
        expected = score_translations(found, references)
        assert score["bleu"] == pytest.approx(expected.bleu, rel=1e-5)
        assert score["statistics"] == expected.statistics
    ((loaded, _),) = load(tmp_path / "results").items()
    assert loaded == run
    assert record.result["pairs"] == 60
    assert record.result["left_out"] == 0


def test_the_best_step_has_the_most_bleu(pairs: Path, tmp_path: Path) -> None:
    """What is kept as the best loss is 1 - BLEU of greedy translations, and every evaluation is logged."""
    train(train_options(pairs))
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    scores = {line["step"]: line["valid_bleu"] for line in lines if "valid_bleu" in line}
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert list(scores) == [2, 4, 6]
    assert result["best_loss"] == pytest.approx(1 - max(scores.values()) / 100)
    assert result["valid_bleu"] == pytest.approx(max(scores.values()))


def test_a_translator_learns_a_dictionary(pairs: Path) -> None:
    """Words with one translation each are learnt in a few steps, also by the delta rule in the decoder."""
    longer = ("training.steps=250", "training.evaluate_every=250", "model.dropout=0", "model.model_dim=32")
    train(train_options(pairs, set=(*TINY, *longer)))
    model, _, _ = load_translator(pairs.parent / "run")
    lines = sentences(4, 5)
    found = translate(model, tokeniser_of(pairs.parent / "run"), lines, Search(1))
    assert [line.text for line in found] == [translated(line) for line in lines]


def test_a_run_that_was_stopped_ends_with_the_same_bits(pairs: Path, tmp_path: Path) -> None:
    whole, halved = (replace(train_options(pairs), out=tmp_path / name) for name in ("whole", "halved"))
    train(whole)
    stopped_run, task = on_data(PRESETS[halved.preset], halved)
    stopped_run = codec().changed(stopped_run, halved.set)
    steps = iter(range(100))
    execution = Execution(codec(), interrupted=lambda: next(steps) > 4)
    record, ending = execution.record(stopped_run, task(stopped_run), halved.out, measured=False)
    assert record is None
    assert ending is not None
    assert 0 < ending.progress.step < 6
    train(halved)
    one, other = (newest_checkpoint(path / "checkpoints").checkpoint for path in (whole.out, halved.out))
    assert one is not None
    assert other is not None
    assert one.step == other.step == 6
    assert all(torch.equal(tensor, other.model[name]) for name, tensor in one.model.items())
    assert (whole.out / "metrics.jsonl").read_text() == (halved.out / "metrics.jsonl").read_text()


def test_the_pairs_of_another_corpus_are_refused(pairs: Path, tmp_path: Path) -> None:
    run, _ = prepared(pairs)
    (pairs / "train.en").write_text((pairs / "train.en").read_text().replace("dog", "hog"), encoding="utf-8")
    with pytest.raises(ValueError, match="run: it is that of other pairs"):
        carry_out(run, tmp_path / "results", data=str(pairs))


def test_a_model_is_built_from_its_seed_alone(pairs: Path) -> None:
    _, task = prepared(pairs)
    torch.manual_seed(5)
    one, other = task.build(), task.build()
    assert isinstance(one, Translator)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
