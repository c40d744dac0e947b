"""A training step on another device than the CPU: nothing waits for the device, and all tensors stay there.

Tensors of torch's meta device have no values, so that whatever asks for one raises, as it would make the host wait for
a GPU. Kernels are dispatched as on a GPU and give tensors of the right shape.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fastweights.kernels.triton import availability
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.update_rules import UPDATE_RULES, UpdateRule

META = torch.device("meta")
WITH_KERNELS = ("sum", "delta", "normalised-delta", "normalised-step", "gated-delta", "delta-product", "decayed-sum")


class Operators(TorchDispatchMode):
    """Records every operator, and the precisions of the tensors that it was last given."""

    def __init__(self) -> None:
        super().__init__()
        self.precisions: dict[str, list[torch.dtype]] = {}

    @property
    def names(self) -> set[str]:
        return set(self.precisions)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.precisions[func.name()] = [x.dtype for x in args if isinstance(x, torch.Tensor)]
        return result


@pytest.fixture
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(availability, "unavailable", lambda: None)
    monkeypatch.setattr(availability, "wrong_device", lambda device: None)


def tiny(rule: UpdateRule, dtype: torch.dtype = torch.float32, vocabulary: int = 50) -> LanguageModel:
    attention = FastWeightAttentionConfig(update_rule=rule)
    sizes = {"model_dim": 16, "num_heads": 2, "num_layers": 2, "feed_forward_dim": 32}
    with META:
        return LanguageModel(LanguageModelConfig(vocabulary, attention=attention, **sizes)).to(dtype)


def train_step(model: LanguageModel) -> Operators:
    """Two segments with carried memory, the second one padded; forward, backward, clipping and the update."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens, mask = torch.zeros(3, 17, dtype=torch.int64, device=META), torch.ones(3, 17, dtype=torch.bool, device=META)
    with Operators() as operators:
        _, states = model(tokens)
        hidden, after = model(tokens, [state.detach() for state in states], mask)
        model.losses(hidden, tokens).mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    assert hidden.device == norm.device == META
    assert all(x.device == META for state in after for x in state.tensors().values())
    return operators


@pytest.mark.parametrize("name", UPDATE_RULES)
def test_no_rule_waits_for_the_device(name: str) -> None:
    names = train_step(tiny(UPDATE_RULES[name]())).names
    assert not any("_local_scalar_dense" in x or "nonzero" in x for x in names)


@pytest.mark.usefixtures("_as_on_a_gpu")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_the_kernels_are_dispatched(name: str, dtype: torch.dtype) -> None:
    operators = train_step(tiny(UPDATE_RULES[name](), dtype))
    assert {"fastweights::triton_scan", "fastweights::triton_scan_backward"} <= operators.names
    queries, keys, values, *others = operators.precisions["fastweights::triton_scan"]
    assert {queries, keys, values} == {dtype}, "half of the bytes to load"
    assert set(others) == {torch.float32}


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_a_step_of_generation_has_its_own_kernel() -> None:
    model, tokens = tiny(UPDATE_RULES["delta"]()).eval(), torch.zeros(3, 1, dtype=torch.int64, device=META)
    with torch.no_grad(), Operators() as operators:
        model(tokens, model.initial_states(3))
    assert "fastweights::triton_step" in operators.names
    assert "fastweights::triton_scan" not in operators.names


def test_a_compiled_model_is_one_graph_with_the_kernels_in_it() -> None:
    """In a process of its own: the shape checks of the tests are more than torch.compile can trace."""
    pytest.importorskip("triton")
    script = Path(__file__).with_name("compiled_for_a_gpu.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    forward, backward = "fastweights.triton_scan.default", "fastweights.triton_scan_backward.default"
    lengths = json.loads(done.stdout)
    # One kernel per layer. The second length makes a graph for any length, the third needs no other.
    assert lengths == [[[forward] * 2, [backward] * 2], [[forward] * 2, [backward] * 2], []]


def test_what_waits_is_found() -> None:
    with pytest.raises(RuntimeError, match="meta"):
        torch.zeros(1, device=META).item()
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.zeros(3, device=META).nonzero()
