"""The layer under what PyTorch offers around a module: compile, export, inference mode, autocast, deepcopy."""

import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fastweights import DPFP, FastWeightAttention, FastWeightState
from random_problems import relative_error


def layer_and_input(backend: str = "chunked") -> tuple[FastWeightAttention, Tensor]:
    torch.manual_seed(0)
    return FastWeightAttention(16, 2, feature_map=DPFP(nu=2), backend=backend), torch.randn(2, 70, 16)


# What is traced is run as it is: the default compiler would also need a C++ compiler where the tests run.
@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
def test_compiled_it_gives_the_same_loss_and_gradients(compiler: str) -> None:
    program = Path(__file__).with_name("compiled_layer.py")
    command = [sys.executable, str(program), compiler, "chunked"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 1e-5


@pytest.mark.usefixtures("without_shape_checks")
def test_exported_it_gives_the_same_reads() -> None:
    layer, x = layer_and_input()

    class ReadsOnly(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
            steps = torch.zeros(x.shape[0], dtype=torch.int64)
            y, after = self.layer(x, FastWeightState(weights, None, steps))
            return y, after.weights

    weights = torch.randn(2, 2, 8, 32)
    with torch.no_grad():
        program = torch.export.export(ReadsOnly(), (x, weights))
        actual = program.module()(x.flip(0), weights)
        expected = ReadsOnly()(x.flip(0), weights)
    for ours, theirs in zip(actual, expected, strict=True):
        assert relative_error(ours, theirs) <= 2e-6


@pytest.mark.usefixtures("without_shape_checks")
def test_exported_with_its_state_it_takes_any_batch_and_time() -> None:
    layer, x = layer_and_input("auto")
    state = layer(x)[1].detach()
    batch, time = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("time", min=2, max=4096)
    shapes = ({0: batch, 1: time}, [{0: batch}] * len(state.tensors()))
    with torch.no_grad():
        program = torch.export.export(layer, (x, state), dynamic_shapes=shapes).module()
        for other in (torch.randn(3, 9, 16), torch.randn(1, 200, 16)):
            start = layer(other)[1]
            (found, after), (expected, wanted) = program(other, start), layer(other, start)
            assert relative_error(found, expected) <= 2e-6
            assert isinstance(after, FastWeightState)
            assert torch.equal(after.steps, wanted.steps)
            assert relative_error(after.weights, wanted.weights) <= 2e-6


def test_on_the_meta_device_it_has_a_shape_and_no_numbers() -> None:
    layer, x = layer_and_input("auto")
    y, state = layer.to("meta")(x.to("meta"))
    assert y.shape == x.shape
    assert state.weights.shape == (2, 2, 8, 32)
    assert y.device.type == state.weights.device.type == "meta"


def test_inference_mode_changes_nothing_and_its_state_can_be_carried_on() -> None:
    layer, x = layer_and_input()
    expected, expected_state = layer(x)
    with torch.inference_mode():
        y, state = layer(x)
        _, later = layer(x, state)
    assert torch.equal(y, expected)
    assert torch.equal(state.weights, expected_state.weights)
    assert later.steps.tolist() == [140, 140]


def test_under_autocast_reads_are_bfloat16_and_the_memory_is_not() -> None:
    layer, x = layer_and_input()
    expected, expected_state = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer(x)
    assert y.dtype == torch.bfloat16
    assert state.weights.dtype == torch.float32
    # The projections round to eight bits; what is written and read loses little more.
    assert relative_error(state.weights, expected_state.weights.detach()) <= 2e-2
    assert relative_error(y.detach(), expected.detach()) <= 2e-2
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in layer.parameters())


def test_a_deepcopy_is_the_same_layer_and_another_one() -> None:
    layer, x = layer_and_input()
    copy = deepcopy(layer)
    expected, _ = layer(x)
    assert torch.equal(copy(x)[0], expected)
    with torch.no_grad():
        copy.output.weight.zero_()
    assert torch.equal(layer(x)[0], expected)
    assert not copy(x)[0].any()


def test_in_double_it_is_a_double_layer() -> None:
    layer, x = layer_and_input()
    expected, _ = layer(x)
    y, state = layer.double()(x.double())
    assert y.dtype == state.weights.dtype == torch.float64
    assert relative_error(expected.detach(), y.detach()) <= 2e-6
