"""A training run that takes seconds, with everything that could go wrong on resuming: dropout, accumulation, carried
states, random features, evaluation. Also a process that starts such runs and kills them."""

import contextlib
import json
import math
import os
import random
import resource
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fastweights.evaluation.perplexity import CarriedState, evaluate
from fastweights.feature_maps import Favor
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.runs.directory import RunDirectory
from fastweights.training.config import TrainingConfig, Upkeep
from fastweights.training.distributed import World
from fastweights.training.loop import Hooks, Outcome, Trainer

VOCABULARY = 40
MODEL = LanguageModelConfig(
    VOCABULARY,
    model_dim=16,
    num_heads=2,
    num_layers=2,
    feed_forward_dim=24,
    attention=FastWeightAttentionConfig(feature_map=Favor(num_features=4)),
    positions=False,
    dropout=0.2,
    cutoffs=(10,),
)
TRAINING = TrainingConfig(
    steps=30,
    batch_size=4,
    segment_length=8,
    learning_rate=1e-2,
    warmup_steps=3,
    accumulation=2,
    carry_state=True,
    log_every=1,
    evaluate_every=7,
)
UPKEEP = Upkeep(save_every_steps=2)


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics."""
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def losses(path: Path) -> list[float]:
    return [row["loss"] for row in rows(path) if "loss" in row]


def tokens(count: int = 331, seed: int = 0) -> "np.ndarray[Any, np.dtype[np.uint16]]":
    """A stream in which frequent words follow frequent words; its last segment is a short one."""
    words = np.random.default_rng(seed).zipf(1.5, count)
    return np.minimum(words - 1, VOCABULARY - 1).astype(np.uint16)


def trainer(
    directory: RunDirectory,
    training: TrainingConfig = TRAINING,
    *,
    model: LanguageModelConfig = MODEL,
    upkeep: Upkeep = UPKEEP,
    world: World = World(),  # noqa: B008
    say: Any = print,
    stream: "np.ndarray[Any, np.dtype[np.uint16]] | None" = None,
    **others: Any,
) -> Trainer:
    """A trainer of the tiny model, validated with carried states."""
    torch.manual_seed(5)
    built = LanguageModel(model)

    def validate(interrupted: Any) -> float | None:
        score = evaluate(built, tokens(60, seed=1), CarriedState(8), interrupted=interrupted)
        return None if score is None else score.loss

    hooks = Hooks(evaluate=validate, say=say)
    stream = tokens() if stream is None else stream
    return Trainer(built, stream, training, directory, world=world, upkeep=upkeep, hooks=hooks, **others)


def train(path: Path, training: TrainingConfig = TRAINING, **options: Any) -> Outcome:
    """Train in a directory, from wherever it is."""
    with RunDirectory.claim(path, {"training": str(training)}, {}) as directory:
        return trainer(directory, training, **options).run()


def kill_often(path: Path, kills: int, steps: int) -> None:
    """Start the run in a forked process that is killed after a random time, again and again; then let it end.

    Forking after the import makes a life as short as a few steps.
    """
    moments = random.Random(1)
    done: list[int] = []
    while len(done) < kills:
        child = os.fork()
        if child == 0:
            lines, delay = moments.randrange(7), moments.uniform(0, 0.03)
            threading.Thread(target=_kill_later, args=(path / "metrics.jsonl", lines, delay), daemon=True).start()
            _live(path, steps)
        moments.random()
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            sys.exit(f"ended before it was killed {kills} times, after {len(done)}")
        metrics = path / "metrics.jsonl"
        done.append(len(metrics.read_text().splitlines()) if metrics.exists() else 0)
    child = os.fork()
    if child == 0:
        _live(path, steps)
    print(json.dumps({"lines_at_kill": done, "status": os.waitpid(child, 0)[1]}))


def _kill_later(metrics: Path, lines: int, delay: float) -> None:
    """kill -9 after so many lines were written, and a moment longer: some are hit while they save.

    From a thread of the process itself, so that a machine that stops everything for a while stops both.
    """
    seen, grown = -1, 0
    while grown < lines:
        size = metrics.stat().st_size if metrics.exists() else 0
        grown += seen >= 0 and size > seen
        seen = size
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(os.getpid(), signal.SIGKILL)


def _live(path: Path, steps: int) -> None:
    torch.set_num_threads(1)
    train(path, replace(TRAINING, steps=steps))
    os._exit(0)


def limited(path: Path, size: int) -> None:
    """Train where no file can be larger than `size` bytes, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    train(path)


def unprivileged(path: Path) -> None:
    """Train as somebody to whom read-only means read-only."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    train(path)


def distributed(path: Path, training: TrainingConfig, dropout: float, poisoned_step: int | None = None) -> None:
    """One of several processes under torchrun; the last of them may meet a loss that is not finite."""
    torch.set_num_threads(1)
    model = replace(MODEL, dropout=dropout)
    upkeep = replace(UPKEEP, keep_checkpoints=99, when_not_finite="skip")
    with World.join("cpu") as world, contextlib.ExitStack() as stack:
        directory = RunDirectory(path, owner=False)
        if world.first:
            directory = stack.enter_context(RunDirectory.claim(path, {"training": str(training)}, {}))
        run = trainer(directory, training, model=model, world=world, upkeep=upkeep)
        if world.rank == world.size - 1:
            run.loss.register_forward_hook(
                lambda module, given, found: (
                    (found[0] * math.nan, found[1]) if run.journal.step + 1 == poisoned_step else None
                )
            )
        run.run()
    print(f"threads left by gloo: {gloo_threads()}", flush=True)


def gloo_threads() -> int | None:
    """Threads of a process group; None where the system does not tell."""
    tasks = Path("/proc/self/task")
    return sum("gloo" in (task / "comm").read_text() for task in tasks.iterdir()) if tasks.exists() else None


if __name__ == "__main__":
    command, folder, *numbers = sys.argv[1:]
    if command == "kill":
        kill_often(Path(folder), int(numbers[0]), int(numbers[1]))
    elif command == "distributed":
        training = replace(TRAINING, steps=int(numbers[0]), accumulation=int(numbers[1]))
        distributed(Path(folder), training, float(numbers[2]), *map(int, numbers[3:]))
    elif command == "train":
        torch.set_num_threads(1)
        outcome = train(Path(folder), replace(TRAINING, steps=int(numbers[0])))
        sys.exit(0 if outcome.finished else 128 + (outcome.signal or 0))
    else:
        try:
            if command == "limited":
                limited(Path(folder), int(numbers[0]))
            else:
                unprivileged(Path(folder))
        except OSError as error:
            print(error)
            sys.exit(1)
