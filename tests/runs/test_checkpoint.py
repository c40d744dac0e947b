"""Checkpoints: complete or absent, whatever happens while they are written or while they lie on the disk."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fastweights.files import FileSystem
from fastweights.runs.checkpoint import (
    FILES,
    Checkpoint,
    CheckpointError,
    best_checkpoint,
    checkpoint_path,
    checkpoints,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
    set_aside,
)


def example(step: int, best: int | None = None) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    model = {"weight": torch.randn(6, 5, generator=generator), "bias": torch.randn(5, generator=generator)}
    moments = {"weight.step": torch.tensor(float(step)), "weight.exp_avg": torch.randn(6, 5, generator=generator)}
    carried = {"0.weights": torch.randn(2, 1, 2, 3, generator=generator), "0.steps": torch.tensor([step, step])}
    return Checkpoint(step, model, moments, carried, {"step": step, "best_step": best, "recent_losses": [0.1, 1 / 3]})


def assert_same(found: Checkpoint | None, expected: Checkpoint) -> None:
    assert found is not None
    assert found.step == expected.step
    assert found.state == expected.state
    for there, here in zip(
        (found.model, found.optimiser, found.carried),
        (expected.model, expected.optimiser, expected.carried),
        strict=True,
    ):
        assert there.keys() == here.keys()
        assert all(torch.equal(there[name], here[name]) and there[name].dtype == here[name].dtype for name in here)


def test_what_is_saved_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, example(7))
    assert_same(newest_checkpoint(tmp_path).checkpoint, example(7))
    assert sorted(file.name for file in (tmp_path / "step-000007").iterdir()) == sorted([*FILES, "manifest.json"])


def test_an_empty_folder_has_none(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path).checkpoint is None
    assert newest_checkpoint(tmp_path / "missing").checkpoint is None


def test_the_last_two_and_the_best_are_kept(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40, 1_000_000):
        save_checkpoint(tmp_path, example(step, best=20), keep=2, best=20)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-1000000", "step-000040", "step-000020"]
    assert_same(newest_checkpoint(tmp_path).checkpoint, example(1_000_000, best=20))
    assert_same(best_checkpoint(tmp_path).checkpoint, example(20, best=20))


def test_a_damaged_best_is_replaced_by_the_newest_and_named(tmp_path: Path) -> None:
    for step in (10, 20):
        save_checkpoint(tmp_path, example(step, best=10), best=10)
    (tmp_path / "step-000010" / "model.safetensors").write_bytes(b"")
    found = best_checkpoint(tmp_path)
    assert_same(found.checkpoint, example(20, best=10))
    assert list(found.damaged) == [tmp_path / "step-000010"]


def test_saving_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, example(5))
    save_checkpoint(tmp_path, example(5, best=5))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000005"]
    assert_same(newest_checkpoint(tmp_path).checkpoint, example(5, best=5))


def flip_a_bit(folder: Path, name: str, chance: random.Random) -> None:
    content = bytearray((folder / name).read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    (folder / name).write_bytes(content)


def truncate(folder: Path, name: str, chance: random.Random) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: chance.randrange(len(content))])


def append(folder: Path, name: str, chance: random.Random) -> None:
    (folder / name).write_bytes((folder / name).read_bytes() + chance.randbytes(chance.randrange(1, 9)))


def scramble(folder: Path, name: str, chance: random.Random) -> None:
    content = bytearray((folder / name).read_bytes())
    start = chance.randrange(len(content))
    content[start : start + 16] = bytes(byte ^ 0x5A for byte in content[start : start + 16])
    (folder / name).write_bytes(content)


def remove(folder: Path, name: str, chance: random.Random) -> None:
    (folder / name).unlink()


def swap(folder: Path, name: str, chance: random.Random) -> None:
    other = chance.choice([file for file in (*FILES, "manifest.json") if file != name])
    contents = (folder / name).read_bytes(), (folder / other).read_bytes()
    (folder / name).write_bytes(contents[1])
    (folder / other).write_bytes(contents[0])


def take_from_the_one_before(folder: Path, name: str, chance: random.Random) -> None:
    shutil.copy(checkpoint_path(folder.parent, 1) / name, folder / name)


def replace_by_a_folder(folder: Path, name: str, chance: random.Random) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()


Mutation = Callable[[Path, str, random.Random], None]
MUTATORS: list[Mutation] = [
    flip_a_bit,
    flip_a_bit,
    flip_a_bit,
    truncate,
    append,
    scramble,
    remove,
    swap,
    take_from_the_one_before,
    replace_by_a_folder,
]


@pytest.mark.parametrize("mutations", [300, pytest.param(1200, marks=pytest.mark.slow)])
def test_every_mutation_is_noticed_and_the_one_before_is_used(tmp_path: Path, mutations: int) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, example(step))
    damaged, untouched = checkpoint_path(tmp_path, 2), tmp_path / "untouched"
    shutil.copytree(damaged, untouched)
    chance = random.Random(0)
    for number in range(mutations):
        mutate, name = MUTATORS[number % len(MUTATORS)], chance.choice([*FILES, "manifest.json"])
        mutate(damaged, name, chance)
        with pytest.raises(CheckpointError, match="step-000002"):
            load_checkpoint(damaged)
        found = newest_checkpoint(tmp_path)
        assert_same(found.checkpoint, example(1))
        assert list(found.damaged) == [damaged]
        shutil.rmtree(damaged)
        shutil.copytree(untouched, damaged)
    assert_same(newest_checkpoint(tmp_path).checkpoint, example(2))


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_every_single_bit_of_the_manifest_counts(tmp_path: Path, every: int) -> None:
    manifest = save_checkpoint(tmp_path, example(1)) / "manifest.json"
    good = manifest.read_bytes()
    for place in range(len(good)):
        for bit in range(place % every, 8, every):
            manifest.write_bytes(good[:place] + bytes([good[place] ^ (1 << bit)]) + good[place + 1 :])
            with pytest.raises(CheckpointError):
                load_checkpoint(manifest.parent)


def test_if_none_is_good_that_is_an_error_and_not_a_new_start(tmp_path: Path) -> None:
    for step in (1, 2):
        flip_a_bit(save_checkpoint(tmp_path, example(step)), "model.safetensors", random.Random(1))
    with pytest.raises(CheckpointError, match=r"no good checkpoint is left: .*step-000002.*step-000001"):
        newest_checkpoint(tmp_path)


def test_a_renamed_checkpoint_is_not_taken_for_another_step(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, example(1)).rename(checkpoint_path(tmp_path, 9))
    with pytest.raises(CheckpointError, match="belongs to step 1"):
        load_checkpoint(checkpoint_path(tmp_path, 9))


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, example(1))
    manifest = json.loads((path / "manifest.json").read_text()) | {"format": 2}
    (path / "manifest.json").write_text(json.dumps(manifest, sort_keys=True, indent=1) + "\n")
    with pytest.raises(CheckpointError, match="format 2 is not 1"):
        load_checkpoint(path)


def test_lies_in_a_header_with_a_true_manifest_are_still_an_error(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, example(1))
    for header in (b"", b"\xff" * 8, (2**63).to_bytes(8, "little") + b"{}", (10).to_bytes(8, "little") + b"{" * 10):
        (path / "model.safetensors").write_bytes(header)
        manifest = json.loads((path / "manifest.json").read_text())
        entry = {"bytes": len(header), "sha256": hashlib.sha256(header).hexdigest()}
        manifest["files"]["model.safetensors"] = entry
        (path / "manifest.json").write_text(json.dumps(manifest, sort_keys=True, indent=1) + "\n")
        with pytest.raises(CheckpointError, match="not a readable checkpoint"):
            load_checkpoint(path)


class Crash(BaseException):
    """The process is gone."""


class FailingFileSystem(FileSystem):
    """Fails at the n-th operation: before it, or half-way through a write."""

    def __init__(self, at: int, error: BaseException) -> None:
        self.left, self.error = at, error

    def _count(self) -> bool:
        self.left -= 1
        return self.left == 0

    def make_folder(self, path: Path) -> None:
        if self._count():
            raise self.error
        super().make_folder(path)

    def write(self, path: Path, content: bytes) -> None:
        if self._count():
            path.write_bytes(content[: len(content) // 2])
            raise self.error
        super().write(path, content)

    def sync_folder(self, path: Path) -> None:
        if self._count():
            raise self.error
        super().sync_folder(path)

    def rename(self, old: Path, new: Path) -> None:
        if self._count():
            raise self.error
        super().rename(old, new)

    def remove_folder(self, path: Path) -> None:
        if self._count():
            next(path.iterdir()).unlink()
            raise self.error
        super().remove_folder(path)


@pytest.mark.parametrize("again", [False, True], ids=["new step", "same step"])
def test_a_crash_at_any_operation_leaves_a_complete_checkpoint(tmp_path: Path, again: bool) -> None:
    operations = 0
    for at in range(1, 40):
        folder = tmp_path / str(at)
        for step in (1, 2, 3):
            save_checkpoint(folder, example(step), keep=3)
        wanted = example(3 if again else 4, best=1)
        try:
            save_checkpoint(folder, wanted, keep=2, best=1, file_system=FailingFileSystem(at, Crash()))
        except Crash:
            found = newest_checkpoint(folder)
            assert not found.damaged
            assert found.checkpoint is not None
            if found.checkpoint.state == wanted.state:
                assert_same(found.checkpoint, wanted)
            else:
                assert_same(found.checkpoint, example(found.checkpoint.step))
                assert found.checkpoint.step in ((2, 3) if again else (3,))
            # The next save cleans up what the crash left.
            save_checkpoint(folder, example(9))
            assert not [path for path in folder.iterdir() if ".tmp-" in path.name]
        else:
            operations = at - 1
            break
    assert operations >= 10


def test_an_error_of_the_disk_leaves_the_last_good_one_and_nothing_half_done(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, example(1))
    for at in range(1, 9):
        with pytest.raises(OSError, match="No space left"):
            save_checkpoint(
                tmp_path, example(2), file_system=FailingFileSystem(at, OSError(28, "No space left on device"))
            )
        visible = [path.name for path in tmp_path.iterdir()]
        assert visible == ["step-000001"] or at == 8
        assert_same(newest_checkpoint(tmp_path).checkpoint, example(1))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_never_saved(tmp_path: Path, bad: float) -> None:
    for part in ("model", "optimiser", "carried"):
        checkpoint = example(3)
        tensors = dict(getattr(checkpoint, part))
        name = next(name for name in tensors if tensors[name].dim() > 1)
        tensors[name] = tensors[name].clone()
        tensors[name].view(-1)[3] = bad
        broken = Checkpoint(
            3,
            **{
                "model": checkpoint.model,
                "optimiser": checkpoint.optimiser,
                "carried": checkpoint.carried,
                part: tensors,
            },
            state={},
        )
        with pytest.raises(FloatingPointError, match=f"step 3: {name} is not finite"):
            save_checkpoint(tmp_path, broken)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_one_set_aside_neither_counts_nor_is_lost(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, example(1))
    aside = set_aside(path)
    assert checkpoints(tmp_path) == []
    assert (aside / "manifest.json").exists()
    assert set_aside(save_checkpoint(tmp_path, example(1))) != aside
