"""One training run of a language model: what decides its numbers, carrying it out, and loading what came of it."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from fastweights.data.text.segments import SegmentStream
from fastweights.data.text.corpus import Corpus
from fastweights.evaluation import perplexity
from fastweights.evaluation.perplexity import CarriedState, Context, IndependentSegments, Score
from fastweights.runs.source_commit import source_commit
from fastweights.runs.training_display import TrainingDisplay
from fastweights.models.language_model import CODEC, LanguageModel, LanguageModelConfig
from fastweights.experiments.language_models.presets import preset_named
from fastweights.runs.environment import Environment
from fastweights.training.carried_state import refuse_growing_states
from fastweights.runs.checkpoint import Checkpoint, best_checkpoint, checkpoints, newest_checkpoint, step_of
from fastweights.training.config import TrainingConfig, Upkeep
from fastweights.files import write_whole
from fastweights.training.distributed import World
from fastweights.training.loop import Hooks, Outcome, Trainer
from fastweights.training.tensors import load_model
from fastweights.training.random_numbers import seed_for
from fastweights.runs.directory import RunDirectory, read_json
from fastweights.training.tensorboard import Scalars

EVALUATIONS = 5
"""Validations of a short run; the long ones of the paper have one every 4000 steps."""


@dataclass(frozen=True)
class LanguageModelRun:
    """All that decides the numbers of a run."""

    model: LanguageModelConfig
    training: TrainingConfig
    text: str
    """Digest of the text and of the way it is split."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `from_dict` reads back."""
        plain: dict[str, Any] = CODEC.to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "LanguageModelRun":
        """The run that `plain` describes; a ValueError names what does not fit."""
        return CODEC.from_plain(cls, plain)

    def changed(self, *changes: str) -> "LanguageModelRun":
        """The run with fields replaced, each given as path=value."""
        run = self
        for change in changes:
            path, equals, value = change.partition("=")
            if not equals:
                raise ValueError(f"set: expected path=value, got {change!r}")
            run = CODEC.override(run, path, value)
        return run

    @property
    def validation(self) -> Context:
        """How the model is validated while it trains: cheaply, and with the context it is trained with."""
        length = self.training.segment_length
        return CarriedState(length) if self.training.carry_state else IndependentSegments(length)


def preset_run(name: str, corpus: Corpus) -> LanguageModelRun:
    """The run that a preset describes, for this text."""
    return described(name, len(corpus.vocabulary), corpus.digest)


def described(name: str, vocabulary_size: int, text: str) -> LanguageModelRun:
    """The run that a preset describes, for the text of this digest."""
    preset = preset_named(name)
    training = TrainingConfig(
        steps=preset.max_steps,
        batch_size=preset.batch_size,
        segment_length=preset.segment_length,
        learning_rate=preset.learning_rate,
        warmup_steps=preset.warmup_steps,
        clip_norm=preset.clip_norm,
        carry_state=preset.carried,
        evaluate_every=min(4000, max(preset.max_steps // EVALUATIONS, 1)),
    )
    return LanguageModelRun(replace(preset.model, vocabulary_size=vocabulary_size), training, text)


def train_run(
    run: LanguageModelRun,
    corpus: Corpus,
    path: Path,
    *,
    upkeep: Upkeep = Upkeep(),  # noqa: B008  a frozen value
    world: World = World(),  # noqa: B008
    display: TrainingDisplay | None = None,
    source: str | None = None,
) -> Outcome | None:
    """Carry a run on to its end or to a signal; None if it had ended before."""
    if (run.model.vocabulary_size, run.text) != (len(corpus.vocabulary), corpus.digest):
        raise ValueError("run: it is that of another text or vocabulary")
    # What cannot be trained should leave no folder behind.
    training, unit = run.training, corpus.vocabulary.splitter.unit
    SegmentStream(corpus.train, training.batch_size, training.segment_length, training.shuffle, training.seed)
    training.columns(0, world.size * training.accumulation)
    if len(corpus.valid) < 2:
        raise ValueError(f"valid: a text of {len(corpus.valid)} {unit} has nothing to predict; expected at least 2")
    model = _new_model(run, world.device)
    display = display or TrainingDisplay(unit, quiet=True)
    with _claimed(path, run, corpus, world, source) as directory:
        if directory.result is not None:
            return None
        scalars = Scalars.open(path / "tensorboard", newest_step(directory)) if world.first else None

        def validate(interrupted: Callable[[], bool]) -> float | None:
            score = perplexity.evaluate(
                model, corpus.valid, run.validation, device=world.device, interrupted=interrupted
            )
            return None if score is None else score.loss

        hooks = Hooks(validate, display.update, display.say, scalars)
        try:
            with display.shown():
                trainer = Trainer(model, corpus.train, training, directory, world=world, upkeep=upkeep, hooks=hooks)
                outcome = trainer.run()
        finally:
            if scalars is not None:
                scalars.close()
        if outcome.finished:
            directory.finish(_result(run, model, outcome))
        return outcome


def _new_model(run: LanguageModelRun, device: torch.device) -> LanguageModel:
    """The model that a run starts from, after a look at whether it computes and can carry what it should."""
    torch.manual_seed(seed_for("model", run.training.seed))
    model = LanguageModel(run.model).to(device).eval()
    with torch.no_grad(), run.training.autocast(device):
        _, states = model(torch.zeros(1, 1, dtype=torch.int64, device=device))
    if run.training.carry_state:
        refuse_growing_states(states)
    return model


def newest_step(directory: RunDirectory) -> int:
    """The step of a run's newest checkpoint, 0 if it has none."""
    return max(map(step_of, checkpoints(directory.checkpoints)), default=0)


def load_run(path: Path, which: str = "best") -> tuple[LanguageModel, LanguageModelRun, Checkpoint]:
    """The model of a run as it was at its best validation, or at its newest checkpoint."""
    run = LanguageModelRun.from_dict(read_json(path / "config.json"))
    found = (best_checkpoint if which == "best" else newest_checkpoint)(path / "checkpoints")
    if found.checkpoint is None:
        raise ValueError(f"{path}: there is no checkpoint yet")
    for problem in found.damaged.values():
        print(f"{problem}; that of step {found.checkpoint.step} is used", file=sys.stderr)
    RunDirectory(path, owner=False).refuse_foreign(found.checkpoint.state, str(path))
    model = LanguageModel(run.model)
    load_model(model, found.checkpoint.model, str(path))
    return model.eval(), run, found.checkpoint


@contextmanager
def _claimed(
    path: Path, run: LanguageModelRun, corpus: Corpus, world: World, source: str | None
) -> Iterator[RunDirectory]:
    """The run directory; the first process owns it, the others wait until it does."""
    if not world.first:
        world.from_first(0)
        yield RunDirectory(path, owner=False)
        return
    environment = {**asdict(Environment.here()), "commit": source_commit()}
    with RunDirectory.claim(path, run.to_dict(), environment) as directory:
        if not (path / "vocabulary.json").exists():
            write_whole(path / "vocabulary.json", corpus.vocabulary.to_json())
        if not (path / "source.json").exists():
            place = str(Path(source).resolve()) if source and Path(source).exists() else source
            write_whole(path / "source.json", json.dumps({"source": place}) + "\n")
        world.from_first(0)
        yield directory


def _result(run: LanguageModelRun, model: LanguageModel, outcome: Outcome) -> dict[str, Any]:
    journal = outcome.journal
    score = None if journal.best_loss is None else Score(journal.best_loss, 0, str(run.validation))
    return {
        "steps": journal.step,
        "last_loss": journal.last_loss,
        "best_loss": journal.best_loss,
        "best_step": journal.best_step,
        "valid_perplexity": None if score is None else score.perplexity,
        "validation": str(run.validation),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seconds": round(journal.seconds, 1),
    }
