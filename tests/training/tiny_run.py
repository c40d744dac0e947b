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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from typing_extensions import override

from fastweights.data.text.corpus import Corpus
from fastweights.data.text.tokenizers import Vocabulary, Words
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.task import LanguageModelTask
from fastweights.feature_maps import Favor
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModelConfig
from fastweights.runs.directory import RunDirectory
from fastweights.runs.display import Display, RunStatus
from fastweights.training.config import CheckpointPolicy, TrainingConfig
from fastweights.training.distributed import Processes
from fastweights.training.loop import Ending, Trainer

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
TASK = LanguageModellingConfig(MODEL, text="tiny", segment_length=8, carry_state=True)
TRAINING = TrainingConfig(
    steps=30,
    batch_size=4,
    learning_rate=1e-2,
    warmup_steps=3,
    accumulation=2,
    log_every=1,
    evaluate_every=7,
)
POLICY = CheckpointPolicy(save_every_steps=2)

Stream = np.ndarray[Any, np.dtype[np.uint16]]


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics."""
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def losses(path: Path) -> list[float]:
    return [row["loss"] for row in rows(path) if "loss" in row]


def tokens(count: int = 331, seed: int = 0) -> Stream:
    """A stream in which frequent words follow frequent words; its last segment is a short one."""
    words = np.random.default_rng(seed).zipf(1.5, count)
    return np.minimum(words - 1, VOCABULARY - 1).astype(np.uint16)


def tiny_task(
    training: TrainingConfig = TRAINING, task: LanguageModellingConfig = TASK, stream: Stream | None = None
) -> LanguageModelTask:
    """Language modelling on a few hundred words."""
    vocabulary = Vocabulary(Words(), tuple(f"word{number}" for number in range(VOCABULARY)))
    train = tokens() if stream is None else stream
    return LanguageModelTask(task, training, Corpus(vocabulary, train, tokens(60, seed=1), tokens(60, seed=2), "tiny"))


class Saying(Display):
    """Passes on what the trainer says, and shows nothing."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self.pass_on = say

    @override
    def say(self, line: str) -> None:
        self.pass_on(line)

    @override
    def update(self, status: RunStatus) -> None:
        pass


def trainer(
    directory: RunDirectory,
    training: TrainingConfig = TRAINING,
    *,
    task: LanguageModellingConfig = TASK,
    policy: CheckpointPolicy = POLICY,
    say: Callable[[str], None] = print,
    stream: Stream | None = None,
    **others: Any,
) -> Trainer:
    """A trainer of the tiny model, validated with carried states."""
    tiny = tiny_task(training, task, stream)
    return Trainer(tiny, tiny.build(), training, directory, policy=policy, display=Saying(say), **others)


def train(path: Path, training: TrainingConfig = TRAINING, **options: Any) -> Ending:
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
    signal.alarm(600)  # a life that hangs ends by another signal than the one that is expected
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


def distributed(runs: dict[Path, TrainingConfig], dropout: float, poisoned_step: int | None = None) -> None:
    """One of several processes under torchrun; the last of them may meet a loss that is not finite."""
    torch.set_num_threads(1)
    with Processes.join("cpu") as processes:
        for path, training in runs.items():
            train_together(path, training, dropout, poisoned_step, processes)
    print(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}, threads left by gloo: {gloo_threads()}", flush=True)


def train_together(
    path: Path, training: TrainingConfig, dropout: float, poisoned_step: int | None, processes: Processes
) -> None:
    task = replace(TASK, model=replace(MODEL, dropout=dropout))
    policy = replace(POLICY, keep_checkpoints=99, when_not_finite="skip")
    with contextlib.ExitStack() as stack:
        directory = RunDirectory(path, owner=False)
        if processes.first:
            identity = str(replace(training, sharding="none"))
            directory = stack.enter_context(RunDirectory.claim(path, {"training": identity}, {}))
        run = trainer(directory, training, task=task, processes=processes, policy=policy)
        if processes.rank == processes.size - 1:
            run.loss.register_forward_hook(
                lambda module, given, found: (
                    (found[0] * math.nan, found[1]) if run.progress.step + 1 == poisoned_step else None
                )
            )
        run.run()
        if training.sharding == "full":
            print(
                f"elements here: {elements_here(run)} of {sum(x.numel() for x in run.model.parameters())}", flush=True
            )


def elements_here(run: Trainer) -> list[int]:
    """How many numbers of parameters and of each moment this process has."""
    parameters = list(run.model.parameters())
    moments = [[run.state.optimiser.state[x][name] for x in parameters] for name in ("exp_avg", "exp_avg_sq")]
    return [sum(x.to_local().numel() for x in tensors) for tensors in (parameters, *moments)]


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
        kinds = numbers[3].split(",")
        paths = dict(
            zip(map(Path, folder.split(",")), (replace(training, sharding=kind) for kind in kinds), strict=True)
        )
        distributed(paths, float(numbers[2]), *map(int, numbers[4:]))
    elif command == "train":
        torch.set_num_threads(1)
        ending = train(Path(folder), replace(TRAINING, steps=int(numbers[0])))
        sys.exit(0 if ending.finished else 128 + (ending.signal or 0))
    else:
        try:
            if command == "limited":
                limited(Path(folder), int(numbers[0]))
            else:
                unprivileged(Path(folder))
        except OSError as error:
            print(error)
            sys.exit(1)
