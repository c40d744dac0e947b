"""Models and moments as named tensors: what goes out comes back, and what does not fit is refused untouched."""

import pytest
import torch
from torch import nn

from fastweights.runs.checkpoint import CheckpointError
from fastweights.training.tensors import load_model, load_optimiser, model_tensors, optimiser_tensors


class Tied(nn.Module):
    """Two names for one matrix, a buffer that is saved, and a parameter that never gets a gradient."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(width, width, bias=False)
        self.second = nn.Linear(width, width, bias=False)
        self.second.weight = self.first.weight
        self.unused = nn.Parameter(torch.zeros(2))
        self.register_buffer("scale", torch.full((2,), 2.0))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)) * self.scale.sum()


def trained(seed: int) -> tuple[Tied, torch.optim.Adam]:
    torch.manual_seed(seed)
    model = Tied()
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    for _ in range(3):
        model(torch.randn(4, 3)).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    return model, optimiser


def copies(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def test_a_tensor_with_two_names_is_saved_once() -> None:
    assert sorted(model_tensors(Tied())) == ["first.weight", "scale", "unused"]


def test_model_and_moments_come_back_and_go_on_alike() -> None:
    model, optimiser = trained(1)
    other, others = trained(2)
    load_model(other, copies(model_tensors(model)), "source")
    load_optimiser(others, other, copies(optimiser_tensors(optimiser, model)), "source")
    assert sorted(optimiser_tensors(others, other)) == [f"first.weight.{m}" for m in ("exp_avg", "exp_avg_sq", "step")]
    x = torch.randn(4, 3)
    for one, adam in ((model, optimiser), (other, others)):
        one(x).square().mean().backward()
        adam.step()
    assert all(torch.equal(y, model_tensors(other)[name]) for name, y in model_tensors(model).items())
    assert other.second.weight is other.first.weight


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"first.weight": torch.zeros(3, 4)},
            r"source: .*another model; first.weight is \(3, 4\) there, \(3, 3\) here",
        ),
        ({"first.weight": torch.zeros(3, 3, dtype=torch.float64)}, "another model; first.weight"),
        ({"third": torch.zeros(1)}, "only one of the two has third"),
    ],
)
def test_tensors_of_another_model_change_nothing(change: dict[str, torch.Tensor], message: str) -> None:
    model, _ = trained(1)
    before = copies(model_tensors(model))
    with pytest.raises(CheckpointError, match=message):
        load_model(model, {**copies(model_tensors(trained(2)[0])), **change}, "source")
    assert all(torch.equal(before[name], tensor) for name, tensor in model_tensors(model).items())


@pytest.mark.parametrize(
    "change",
    [
        {"first.weight.step": torch.zeros(2)},
        {"first.weight.exp_avg": torch.zeros(3, 4)},
        {"first.weight.exp_avg_sq": torch.zeros(3, 3, dtype=torch.float64)},
        {"third.step": torch.tensor(1.0)},
        {"unused.exp_avg": torch.zeros(2)},
    ],
)
def test_moments_of_another_model_are_refused(change: dict[str, torch.Tensor]) -> None:
    model, optimiser = trained(1)
    moments = copies(optimiser_tensors(optimiser, model)) | change
    with pytest.raises(CheckpointError, match=r"source: optim\.safetensors is that of another model"):
        load_optimiser(optimiser, model, moments, "source")
