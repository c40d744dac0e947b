"""Training one retrieval model: the loop's state, one step of it, its checkpoint, and when it ends (Sec. 6.1)."""

import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from fastweights.data.retrieval import FEATURES, INITIALISATION, torch_generator
from fastweights.experiments.retrieval.evaluation import evaluate
from fastweights.experiments.retrieval.config import PROTOCOLS, RetrievalRun
from fastweights.experiments.retrieval.model import RetrievalModel, retrieval_loss

CHECKPOINT_FORMAT = "fastweights-retrieval-1"


@dataclass
class Progress:
    """How far a run has come: its step, its learning curve, and the training losses since the last evaluation."""

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)

    def best(self, name: str = "loss") -> tuple[float | None, int | None]:
        """The least of a curve and the first step that reached it; not-a-number, kept as null, is never least."""
        finite = [(row[name], row["step"]) for row in self.curve if row[name] is not None]
        return min(finite, default=(None, None))

    def last(self, name: str = "loss") -> float | None:
        """The last point of a curve."""
        return self.curve[-1][name] if self.curve else None

    @property
    def current_loss(self) -> float:
        """The last evaluation; before the first, the mean training loss."""
        loss = self.last() if self.curve else self.loss_sum / max(self.loss_count, 1)
        return math.nan if loss is None else loss

    def reason_to_stop(self, run: RetrievalRun) -> str | None:
        """solved, patience, not-finite or limit; None while there is none."""
        if not self.curve:
            return None
        last, (_, best_step) = self.last(), self.best()
        if last is not None and last <= run.stop_loss:
            return "solved"
        if sum(row["step"] > (best_step or 0) for row in self.curve) >= run.patience:
            return "patience" if last is not None else "not-finite"
        return "limit" if self.step >= run.max_steps else None


class Training:
    """A model, Adam and the progress made; a pure function of the run and the step, however often it is reloaded."""

    def __init__(self, run: RetrievalRun) -> None:
        self.run, self.task, self.progress = run, run.task, Progress()
        self.model = RetrievalModel(run.num_keys, run.attention, run.key_dim, torch_generator(run.seed, INITIALISATION))
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=run.learning_rate, fused=True)

    def advance(self) -> None:
        """One step, and the evaluation that is due after it."""
        run, progress = self.run, self.progress
        progress.step += 1
        lookups = self.task.batch(run.batch_size, seed=run.seed, step=progress.step)
        features = self.model.draw_features(torch_generator(run.seed, FEATURES, progress.step))
        loss = retrieval_loss(self.model(*lookups[:3], features), lookups.targets).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        progress.loss_sum += loss.item()
        progress.loss_count += 1
        if progress.step % run.evaluate_every == 0 or progress.step == run.max_steps:
            progress.curve.append(self._evaluate())
            progress.loss_sum, progress.loss_count = 0.0, 0

    def _evaluate(self) -> dict[str, Any]:
        """A point of the curve: the loss that decides when to stop, and that of each known protocol."""
        run, step = self.run, self.progress.step
        losses = {
            name: evaluate(self.model, self.task, protocol, chunk_size=run.batch_size, seed=run.seed, step=step)
            for name, protocol in {**PROTOCOLS, "loss": run.protocol}.items()
            if name != "loss" or protocol not in PROTOCOLS.values()
        }
        known = [name for name, protocol in PROTOCOLS.items() if protocol == run.protocol]
        losses["loss"] = losses[known[0]] if known else losses["loss"]
        losses["train_loss"] = self.progress.loss_sum / self.progress.loss_count
        finite = {name: loss if math.isfinite(loss) else None for name, loss in losses.items()}
        return {"step": step, **{name: finite[name] for name in ("loss", "train_loss", *PROTOCOLS)}}

    def save(self, path: Path) -> None:
        """Write a checkpoint: all of it or, if that fails, nothing."""
        tensors = {}
        for name, parameter in self.model.named_parameters():
            tensors[f"model.{name}"] = parameter.detach()
            state = self.optimiser.state[parameter]
            if state:
                tensors[f"first_moment.{name}"] = state["exp_avg"]
                tensors[f"second_moment.{name}"] = state["exp_avg_sq"]
        metadata = {
            "format": CHECKPOINT_FORMAT,
            "run": self.run.digest,
            "progress": json.dumps(asdict(self.progress), allow_nan=False),
        }
        partial = partial_file(path)
        save_file(tensors, partial, metadata)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)

    def load(self, path: Path) -> None:
        """Go on from a checkpoint of this run; a ValueError if the file is not one."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if metadata.get("format") != CHECKPOINT_FORMAT or metadata.get("run") != self.run.digest:
                raise ValueError("it belongs to another run")
            progress = Progress(**json.loads(metadata["progress"]))
            self._restore(tensors, progress.step)
        except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ValueError(f"{path}: no checkpoint of this run ({error}); delete it to start again") from error
        self.progress = progress

    def _restore(self, tensors: dict[str, torch.Tensor], step: int) -> None:
        states = {}
        for i, (name, parameter) in enumerate(self.model.named_parameters()):
            parameter.data.copy_(tensors[f"model.{name}"])
            if step > 0:
                states[i] = {
                    "step": torch.tensor(float(step)),
                    "exp_avg": tensors[f"first_moment.{name}"].clone(),
                    "exp_avg_sq": tensors[f"second_moment.{name}"].clone(),
                }
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": states, "param_groups": groups})


def partial_file(path: Path) -> Path:
    """Where a checkpoint is written before it takes its place."""
    return path.with_name(f".{path.name}.partial")


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint that is no longer needed, and what a killed process may have left of one."""
    path.unlink(missing_ok=True)
    partial_file(path).unlink(missing_ok=True)
