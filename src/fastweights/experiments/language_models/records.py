"""Language models for the tables: training one, measuring its perplexity, and the record that remains.

    RESULTS/runs/NAME/            the owner's lock
    RESULTS/runs/NAME/model/      the run directory of the training
    RESULTS/records/NAME.json     the record: configuration, perplexities, environment, learning curve

Several processes given the same command share the work: each takes the first run that nobody else is at.
"""

import hashlib
import json
import signal
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fastweights.data.text.corpus import PUBLIC, Corpus
from fastweights.evaluation import perplexity
from fastweights.evaluation.perplexity import CarriedState, Context, Score, SlidingWindow
from fastweights.experiments.language_models.task import (
    LanguageModelRun,
    described,
    load_run,
    preset_run,
    train_run,
)
from fastweights.runs.training_display import TrainingDisplay
from fastweights.experiments.language_models.presets import PRESETS
from fastweights.experiments.language_models.reach import Reach
from fastweights.experiments.language_models.perplexities import Perplexities, Perplexity, perplexity_of
from fastweights.runs.record import (
    Record,
    exclusive,
    is_number,
    read_records,
    record_of_directory,
    record_path,
    rounded,
    run_directory,
    write_text,
)
from fastweights.training.config import Upkeep
from fastweights.training.distributed import World

TEXTS = {"cpu": "wikitext-2", "small": "wikitext-103", "medium": "wikitext-103"}
"""What the models of each size are trained on for the tables."""
STRIDES = {"cpu": 64, "small": 1, "medium": 1}
"""How far the window moves: by 1 in the paper; further where a few cores have to do it."""

REACHES = (1, 4, 16, 64, 256)
"""Segments after which the memory of a model with carried memory is emptied, to see how far back it is of use."""

LanguageModelRecords = Mapping[LanguageModelRun, Record]


def name_of(preset: str, run: LanguageModelRun) -> str:
    """The name of a run's directory and record: readable, and different for any other configuration."""
    canonical = json.dumps(run.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{preset}-{hashlib.sha256(canonical.encode()).hexdigest()[:12]}"


def load(results: Path) -> dict[LanguageModelRun, Record]:
    """The records of a results folder by the run that each one records."""
    records = {}
    for path, record in read_records(results).items():
        try:
            records[LanguageModelRun.from_dict(record.config)] = record
        except ValueError as error:
            raise ValueError(f"{path}: corrupted record, {error}") from error
        scores = [record.result.get(split) for split in ("valid", "test")]
        if not all(isinstance(score, dict) and is_number(score.get("loss", "missing")) for score in scores):
            raise ValueError(f"{path}: corrupted record, 'result' has no losses of valid and test")
        reach = record.result.get("reach", {})
        if not isinstance(reach, dict) or not all(key.isdecimal() and is_number(reach[key]) for key in reach):
            raise ValueError(f"{path}: corrupted record, 'reach' is not a table of words and losses")
    return records


def carry_out(
    preset: str, corpus: Corpus, results: Path, *, world: World, display: TrainingDisplay, source: str
) -> bool:
    """Train the model of a preset and measure it, from wherever it was; False if another process is at it.

    SystemExit if a signal asks to stop: all of the training so far is saved then.
    """
    run = preset_run(preset, corpus)
    name = name_of(preset, run)
    if world.from_first(record_path(results, name).exists()):
        return True
    directory = run_directory(results, name)
    with exclusive(directory) if world.first else nullcontext(False) as owned:
        if not world.from_first(owned):
            return False
        display.say(f"{preset}: {directory}")
        upkeep = Upkeep(save_every_seconds=120.0, when_not_finite="skip")
        outcome = train_run(
            run, corpus, directory / "model", upkeep=upkeep, world=world, display=display, source=source
        )
        if outcome is not None and not outcome.finished:
            display.say(f"{preset}: stopped after step {outcome.journal.step}, all of it saved")
            raise SystemExit(128 + (outcome.signal or signal.SIGTERM))
        if world.first:
            scores = measure(preset, directory / "model", corpus, world, display)
            record = record_of_directory(directory / "model")
            write_text(record_path(results, name), replace(record, result=record.result | scores).to_json())
        world.from_first(0)
    return True


def measure(preset: str, path: Path, corpus: Corpus, world: World, display: TrainingDisplay) -> dict[str, Any]:
    """Losses of the best checkpoint on valid and test, with the context that the model was trained with."""
    model, run, checkpoint = load_run(path)
    model.to(world.device)

    def scored(split: str, context: Context) -> Score:
        score = perplexity.evaluate(model, corpus.split(split), context, device=world.device, on_progress=display.count)
        assert score is not None
        display.say(f"{preset}: {split} perplexity {score.perplexity:.2f} ({context})")
        return score

    scores: dict[str, Any] = {"evaluated_step": checkpoint.step}
    with display.shown():
        for split in ("valid", "test"):
            scores[split] = rounded(asdict(scored(split, context_of(preset, run))))
        if run.training.carry_state:
            length = run.training.segment_length
            contexts = [CarriedState(length, segments * length) for segments in REACHES]
            scores["reach"] = {str(context.reach): rounded(scored("valid", context).loss) for context in contexts}
    return scores


def context_of(preset: str, run: LanguageModelRun) -> Context:
    """The context in which a table measures a model."""
    length = run.training.segment_length
    return CarriedState(length) if run.training.carry_state else SlidingWindow(length, STRIDES[size_of(preset)])


def size_of(preset: str) -> str:
    """cpu, small or medium."""
    return preset.partition("-")[0]


def preset_of(run: LanguageModelRun) -> str | None:
    """The preset whose recipe and text a run follows exactly, if there is one."""
    for preset in PRESETS:
        vocabulary_size = PUBLIC[TEXTS[size_of(preset)]].vocabulary_size
        if run == described(preset, vocabulary_size, run.text):
            return preset
    return None


def reaches(records: LanguageModelRecords) -> dict[str, Reach]:
    """How far back carried memories are of use, by the name of the model, at the size for CPUs."""
    found: dict[str, Reach] = {}
    for run, record in records.items():
        preset = preset_of(run)
        if preset is not None and size_of(preset) == "cpu" and "reach" in record.result:
            losses = {int(words): loss for words, loss in record.result["reach"].items()}
            losses[record.result["valid"]["tokens"]] = record.result["valid"]["loss"]
            found[preset.partition("-")[2]] = {words: perplexity_of(losses[words]) for words in sorted(losses)}
    return found


def perplexities(records: LanguageModelRecords) -> Perplexities:
    """What the models of the tables reached, by size and name."""
    found: dict[str, dict[str, Perplexity]] = {}
    for run, record in records.items():
        preset = preset_of(run)
        if preset is not None:
            size, _, name = preset.partition("-")
            losses = (record.result[split]["loss"] for split in ("valid", "test"))
            found.setdefault(size, {})[name] = Perplexity.of_losses(*losses)
    return Perplexities(found)
