"""How often a training step makes the host wait for a device, counted on torch's meta device.

Its tensors have no values: whatever asks one for a value raises, as it would make the host wait for a GPU. The one read
at the end of a step is counted and answered, and so is every copy to the device that would block the host.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_run import MODEL, TASK, TRAINING, tiny_task
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from fastweights.feature_maps import DPFP
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModel
from fastweights.training.distributed import Processes
from fastweights.training.gradients import GradientComputation, StepGradients, TaskLoss
from fastweights.training.random_numbers import start_training

META = torch.device("meta")
ONE_CLUSTER = replace(MODEL, attention=FastWeightAttentionConfig(feature_map=DPFP()), cutoffs=())
RANDOM_FEATURES = replace(MODEL, cutoffs=())


class Waits(TorchDispatchMode):
    """Counts copies to the device that block the host, and reads of results."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[tuple[int, ...]] = []
        self.reads: list[int] = []

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.copy_):
            devices = {x.device for x in (*args, result) if isinstance(x, Tensor)}
            if len(devices) > 1 and not (kwargs or {}).get("non_blocking"):
                self.copies.append(tuple(result.shape))
        return result

    def read(self, tensor: Tensor) -> list[float]:
        """In place of `tolist`, which waits until the device has computed the tensor."""
        self.reads.append(len(tensor))
        return [1.0] * len(tensor)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    counted = Waits()
    monkeypatch.setattr(Tensor, "tolist", lambda tensor: counted.read(tensor))
    return counted


def step(waits: Waits, model: Any, **changes: Any) -> StepGradients:
    """Gradients and update of the second step of a run, whose memory was carried from the first."""
    training = replace(TRAINING, **changes)
    task = tiny_task(training, replace(TASK, model=model))
    with META:
        model = LanguageModel(model)
        carried = [model.initial_states(training.batch_size // training.accumulation)] * training.accumulation
    start_training(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    compute = GradientComputation(TaskLoss(task, model), training, Processes(device=META), checked=True)
    with waits:
        found = compute(1, carried)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("model", [ONE_CLUSTER, RANDOM_FEATURES], ids=["dpfp", "favor"])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_step_waits_once_at_its_end(waits: Waits, parts: int, model: Any) -> None:
    found = step(waits, model, accumulation=parts)
    assert waits.reads == [parts + 1], "one read for the losses of all parts and the gradient norm"
    assert waits.copies == []
    assert found.trouble is None
    assert all(x.device == META for states in found.carried for state in states for x in state.tensors().values())


def test_a_copy_that_blocks_is_counted(waits: Waits) -> None:
    with waits:
        torch.ones(3).to(META)
        torch.ones(2).to(META, non_blocking=True)
    assert waits.copies == [(3,)]
