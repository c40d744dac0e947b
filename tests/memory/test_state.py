"""The state as a value: copies, rows, equality, and files that are read back bit for bit or refused."""

import json
import re
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fastweights.memory import FastWeightState


def example(batch: int = 3, normaliser: bool = True, dtype: torch.dtype = torch.float32) -> FastWeightState:
    zeros = FastWeightState.zeros(batch, 2, 4, 5, normaliser=normaliser, log_scale=normaliser, dtype=dtype)
    generator = torch.Generator().manual_seed(1)
    return FastWeightState(
        torch.randn(zeros.weights.shape, generator=generator, dtype=dtype),
        None if zeros.normaliser is None else torch.rand(zeros.normaliser.shape, generator=generator, dtype=dtype),
        torch.arange(batch) + 7,
        None if zeros.log_scale is None else torch.randn(zeros.log_scale.shape, generator=generator, dtype=dtype),
    )


def test_zeros_is_an_empty_memory() -> None:
    state = FastWeightState.zeros(2, 3, 4, 5, normaliser=True, dtype=torch.float64)
    assert state.weights.abs().sum() == state.normaliser.abs().sum() == state.steps.sum() == 0
    assert state.weights.shape == (2, 3, 4, 5)
    assert state.weights.dtype == torch.float64
    assert state.log_scale is None


def test_detach_cuts_the_graph_and_clone_copies() -> None:
    state = example()
    state.weights.requires_grad_()
    assert not state.detach().weights.requires_grad
    copy = state.clone()
    assert copy == state
    assert copy.weights.data_ptr() != state.weights.data_ptr()
    assert copy.weights.requires_grad, "gradients flow through a clone"


def test_to_changes_the_precision_of_floating_point_parts_only() -> None:
    state = example().to(dtype=torch.float64)
    assert {x.dtype for x in (state.weights, state.normaliser, state.log_scale)} == {torch.float64}
    assert state.steps.dtype == torch.int64
    assert state.to(dtype=torch.float32) == example()
    assert state.to("meta").weights.device.type == "meta"


def test_reorder_and_select_take_whole_rows() -> None:
    state, beams = example(), torch.tensor([2, 0, 0, 1])
    reordered = state.reorder(beams)
    for after, before in (
        (reordered.weights, state.weights),
        (reordered.normaliser, state.normaliser),
        (reordered.steps, state.steps),
        (reordered.log_scale, state.log_scale),
    ):
        assert torch.equal(after, before[beams])
    assert state.select(torch.tensor([True, False, True])) == state.reorder(torch.tensor([0, 2]))
    with pytest.raises(ValueError, match="vector of indices, got torch"):
        state.reorder(torch.tensor([True, False, True]))


@pytest.mark.parametrize("part", ["weights", "normaliser", "steps", "log_scale"])
def test_equality_looks_at_every_bit_of_every_part(part: str) -> None:
    state, other = example(), example()
    assert state == other
    getattr(other, part).view(-1)[0] += 1
    assert state != other
    assert state != "a state"
    with pytest.raises(TypeError, match="unhashable"):
        hash(state)


def test_equality_tells_zero_from_minus_zero_and_nan_is_itself() -> None:
    state, other = example(), example()
    state.weights[0, 0, 0, 0] = other.weights[0, 0, 0, 0] = torch.nan
    assert state == other
    state.weights[0, 0, 0, 0], other.weights[0, 0, 0, 0] = 0.0, -0.0
    assert state != other
    assert example(normaliser=False) != example()
    assert example(dtype=torch.float64) != example()


@pytest.mark.parametrize("normaliser", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_save_and_load_keep_every_bit(tmp_path: Path, normaliser: bool, dtype: torch.dtype) -> None:
    state = example(normaliser=normaliser, dtype=dtype)
    state.weights[0, 0, 0, :3] = torch.tensor([torch.nan, -0.0, 1e-40]).to(dtype)
    # Not contiguous, and part of something larger: what a chunked scan leaves.
    strided = FastWeightState(state.weights.mT.contiguous().mT, state.normaliser, state.steps, state.log_scale)
    strided.save(tmp_path / "state")
    assert FastWeightState.load(tmp_path / "state") == state
    assert [path.name for path in tmp_path.iterdir()] == ["state"], "nothing else is left behind"


def test_saving_replaces_and_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    example(batch=1).save(path)
    example().save(path)
    assert FastWeightState.load(path) == example()

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        example(batch=1).save(path)
    assert FastWeightState.load(path) == example()
    assert len(list(tmp_path.iterdir())) == 1


def test_any_cut_and_any_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state"
    example(batch=1).save(path)
    whole = path.read_bytes()
    for size in [0, 1, 7, 8, 40, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=re.escape(str(path))):
            FastWeightState.load(path)
    data_starts = 8 + struct.unpack("<Q", whole[:8])[0]
    for position in [*range(0, data_starts, 5), *range(data_starts, len(whole), 7)]:
        changed = bytearray(whole)
        changed[position] ^= 4
        path.write_bytes(changed)
        refusal = None
        try:
            assert FastWeightState.load(path) == example(batch=1), position
        except ValueError as error:
            refusal = str(error)
        # Only in the header can a byte be without meaning.
        assert position < data_starts if refusal is None else str(path) in refusal


@pytest.mark.parametrize(
    ("name", "replacement", "message"),
    [
        ("weights", torch.zeros(2, 4, 5), r"weights must be \(b, h, v, k\), got shape \(2, 4, 5\)"),
        ("normaliser", torch.zeros(3, 2, 6), r"normaliser must have shape \(3, 2, 5\), got \(3, 2, 6\)"),
        ("steps", torch.zeros(2, dtype=torch.int64), r"steps must have shape \(3,\), got \(2,\)"),
        ("steps", torch.zeros(3), "steps cannot be of dtype torch.float32"),
        ("weights", torch.zeros(3, 2, 4, 5, dtype=torch.int32), "weights cannot be of dtype torch.int32"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_a_file_whose_parts_do_not_fit_is_refused(
    tmp_path: Path, name: str, replacement: torch.Tensor, message: str
) -> None:
    state = example()
    parts = {part: getattr(state, part) for part in ("weights", "normaliser", "steps", "log_scale")}
    FastWeightState(**{**parts, name: replacement}).save(tmp_path / "state")
    with pytest.raises(ValueError, match=message):
        FastWeightState.load(tmp_path / "state")


def test_foreign_files_are_refused_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with pytest.raises(ValueError, match="not a readable state file"):
        FastWeightState.load(path)
    path.write_text(json.dumps({"weights": []}))
    with pytest.raises(ValueError, match="not a readable state file"):
        FastWeightState.load(path)
    save_file({"weights": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="expected the format 'fastweights-state-1' of a state, got None"):
        FastWeightState.load(path)
    save_file({"a": torch.zeros(1)}, path, metadata={"format": "fastweights-state-1"})
    with pytest.raises(ValueError, match=r"expected the tensors .* of a state, got \['a'\]"):
        FastWeightState.load(path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_an_empty_memory_with_a_scale_of_any_precision(dtype: torch.dtype) -> None:
    state = FastWeightState.zeros(1, 2, 3, 4, log_scale=True, dtype=dtype)
    assert state.log_scale is not None
    assert state.log_scale.isfinite().all()
    assert (state.log_scale <= -6e4).all()
