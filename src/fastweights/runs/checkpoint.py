"""Checkpoints that are complete or absent, and checked before they are used.

    FOLDER/step-000123/  model.safetensors  optim.safetensors  carried.safetensors  state.json  manifest.json

Written under another name, flushed to the disk, then renamed; older ones are removed only after that. `manifest.json`
holds the size and SHA-256 of every file, and no tensor leaves a file whose bytes differ.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fastweights.files import FILE_SYSTEM, LARGEST_JSON, FileSystem, Json

Tensors = Mapping[str, Tensor]

FORMAT = 1
FILES = ("model.safetensors", "optim.safetensors", "carried.safetensors", "state.json")
UNFINISHED = ".tmp-"


class CheckpointError(ValueError):
    """A checkpoint that cannot be used, and why."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything that a run needs to resume; random numbers are functions of the step."""

    step: int
    model: Tensors
    optimiser: Tensors
    carried: Tensors
    state: Json


@dataclass(frozen=True, eq=False)
class Found:
    """The newest checkpoint that is good, if any, and what was wrong with those after it."""

    checkpoint: Checkpoint | None
    damaged: dict[Path, str] = field(default_factory=dict)


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step belongs."""
    return folder / f"step-{step:06d}"


def save_checkpoint(
    folder: Path,
    checkpoint: Checkpoint,
    *,
    keep: int = 2,
    best: int | None = None,
    file_system: FileSystem = FILE_SYSTEM,
) -> Path:
    """Write a checkpoint, then remove all but the last `keep` and the one of step `best`."""
    _refuse_not_finite(checkpoint)
    final = checkpoint_path(folder, checkpoint.step)
    partial = final.with_name(f"{final.name}{UNFINISHED}{os.getpid()}")
    remove_unfinished(folder, file_system)
    file_system.make_folder(partial)
    try:
        entries = {}
        for name, content in _contents(checkpoint):
            file_system.write(partial / name, content)
            entries[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        manifest = {"format": FORMAT, "step": checkpoint.step, "files": entries}
        file_system.write(partial / "manifest.json", _canonical(manifest))
        file_system.sync_folder(partial)
        if final.exists():
            file_system.rename(final, final.with_name(f"{final.name}{UNFINISHED}replaced-{os.getpid()}"))
        file_system.rename(partial, final)
    except OSError:
        if partial.exists():
            file_system.remove_folder(partial)
        raise
    file_system.sync_folder(folder)
    _prune(folder, keep, best, file_system)
    return final


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; every byte is compared with the manifest before any of it is used."""
    contents = _verified(path)
    try:
        state = json.loads(contents["state.json"])
        tensors = [load(contents[name]) for name in FILES[:3]]
    except (SafetensorError, json.JSONDecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: not a readable checkpoint ({error})") from error
    if not isinstance(state, dict) or checkpoint_path(path.parent, state.get("step", -1)) != path:
        raise CheckpointError(f"{path}: state.json belongs to another step")
    return Checkpoint(state["step"], tensors[0], tensors[1], tensors[2], state)


def newest_checkpoint(folder: Path) -> Found:
    """The newest good checkpoint; damaged ones are passed over, but if none is left that is an error."""
    damaged: dict[Path, str] = {}
    for path in checkpoints(folder):
        try:
            return Found(load_checkpoint(path), damaged)
        except CheckpointError as error:
            damaged[path] = str(error)
    if damaged:
        raise CheckpointError("no good checkpoint is left: " + "; ".join(damaged.values()))
    return Found(None)


def best_checkpoint(folder: Path) -> Found:
    """The good checkpoint with the lowest validation loss, or the newest if none was evaluated."""
    newest = newest_checkpoint(folder)
    if newest.checkpoint is None or newest.checkpoint.state.get("best_step") in (None, newest.checkpoint.step):
        return newest
    path = checkpoint_path(folder, newest.checkpoint.state["best_step"])
    try:
        return Found(load_checkpoint(path), newest.damaged)
    except CheckpointError as error:
        return Found(newest.checkpoint, {**newest.damaged, path: str(error)})


def step_of(path: Path) -> int:
    """The step of a checkpoint by its name."""
    return int(path.name.removeprefix("step-"))


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, newest first, good or not."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if re.fullmatch(r"step-\d{6,}", path.name)]
    return sorted(found, key=step_of, reverse=True)


def remove_unfinished(folder: Path, file_system: FileSystem = FILE_SYSTEM) -> None:
    """Remove what earlier processes began to write or to delete; only for the owner of the run directory."""
    for path in folder.glob(f"step-*{UNFINISHED}*"):
        file_system.remove_folder(path)


def set_aside(path: Path) -> Path:
    """Give a damaged checkpoint another name, so that it neither counts nor is lost."""
    number = 0
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    FILE_SYSTEM.rename(path, aside)
    return aside


def _contents(checkpoint: Checkpoint) -> Iterator[tuple[str, bytes]]:
    """The files of a checkpoint one by one, so that only one is in memory at a time."""
    for name, tensors in zip(FILES, (checkpoint.model, checkpoint.optimiser, checkpoint.carried), strict=False):
        yield name, save({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()})
    yield "state.json", _canonical({**checkpoint.state, "step": checkpoint.step})


def _canonical(value: Json) -> bytes:
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


def _verified(path: Path) -> dict[str, bytes]:
    """The bytes of every file, exactly as they were written."""
    try:
        if (path / "manifest.json").stat().st_size > LARGEST_JSON:
            raise CheckpointError(f"{path}: manifest.json is far too large")
        text = (path / "manifest.json").read_bytes()
        manifest = json.loads(text)
        if not isinstance(manifest, dict) or _canonical(manifest) != text:
            raise CheckpointError(f"{path}: manifest.json is not what was written")
        if manifest.get("format") != FORMAT:
            raise CheckpointError(
                f"{path}: format {manifest.get('format')!r} is not {FORMAT}, which this version reads"
            )
        if manifest.keys() != {"format", "step", "files"} or set(manifest["files"]) != set(FILES):
            raise CheckpointError(f"{path}: manifest.json names other files")
        if checkpoint_path(path.parent, manifest["step"]) != path:
            raise CheckpointError(f"{path}: manifest.json belongs to step {manifest['step']}")
        return {name: _read(path / name, manifest["files"][name]) for name in FILES}
    except OSError as error:
        raise CheckpointError(f"{path}: incomplete ({error.strerror}: {Path(str(error.filename)).name})") from error
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path}: manifest.json is not what was written ({type(error).__name__})") from error


def _read(path: Path, entry: Json) -> bytes:
    if entry.keys() != {"bytes", "sha256"}:
        raise CheckpointError(f"{path.parent}: manifest.json is not what was written")
    if path.stat().st_size != entry["bytes"]:
        raise CheckpointError(f"{path}: {path.stat().st_size} bytes, {entry['bytes']} were written")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise CheckpointError(f"{path}: damaged, its SHA-256 is not that of what was written")
    return content


def _refuse_not_finite(checkpoint: Checkpoint) -> None:
    for tensors in (checkpoint.model, checkpoint.optimiser, checkpoint.carried):
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise FloatingPointError(f"step {checkpoint.step}: {name} is not finite; nothing was saved")


def _prune(folder: Path, keep: int, best: int | None, file_system: FileSystem) -> None:
    for path in checkpoints(folder)[keep:]:
        if step_of(path) != best:
            # Under another name first: a checkpoint that is half removed must not look like one.
            file_system.rename(path, path.with_name(f"{path.name}{UNFINISHED}removed-{os.getpid()}"))
    remove_unfinished(folder, file_system)
