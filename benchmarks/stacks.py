"""A training step as a user sees it: a small Transformer whose attention is a memory, against the same with softmax."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.entries import TOLERANCE
from benchmarks.gemm import race_with_yardstick
from benchmarks.operators import readable
from benchmarks.record import SpeedRecord
from benchmarks.table import Table, best, milliseconds, ratio
from benchmarks.timing import Json, Times, stopwatch
from fastweights import (
    DPFP,
    Block,
    DeltaRule,
    EluPlusOne,
    FastWeightAttention,
    FeedForward,
    NoNormalisation,
    SoftmaxAttention,
    SumRule,
)

MODEL_DIM, HEADS, HIDDEN_DIM, LAYERS = 256, 8, 1024, 4
BATCH, STEPS = 4, 1024
CHECKED_STEPS = 160
"""Steps of the one sequence on which a stack is compared with its definition in float64."""

MakeAttention = Callable[[str], nn.Module]
"""From the name of a backend to a layer of attention."""


def delta_dpfp(nu: int) -> MakeAttention:
    """DPFP-ν, sum normalisation and the delta rule: the paper's own system."""
    return lambda backend: FastWeightAttention(MODEL_DIM, HEADS, feature_map=DPFP(nu), backend=backend)


def delta_elu(backend: str) -> nn.Module:
    """ELU+1 with the delta rule."""
    return FastWeightAttention(MODEL_DIM, HEADS, feature_map=EluPlusOne(), update_rule=DeltaRule(), backend=backend)


def sum_elu(backend: str) -> nn.Module:
    """ELU+1 with the sum rule and attention normalisation: the Linear Transformer."""
    return FastWeightAttention(
        MODEL_DIM,
        HEADS,
        feature_map=EluPlusOne(),
        update_rule=SumRule(),
        normalisation=NoNormalisation(),
        attention_normalisation=True,
        backend=backend,
    )


def softmax(backend: str) -> nn.Module:
    """PyTorch's causal attention; it has no backends of ours."""
    return SoftmaxAttention(MODEL_DIM, HEADS)


ATTENTIONS: dict[str, MakeAttention] = {
    "softmax": softmax,
    "delta, DPFP-1": delta_dpfp(1),
    "delta, DPFP-2": delta_dpfp(2),
    "delta, DPFP-3": delta_dpfp(3),
    "delta, ELU+1": delta_elu,
    "sum, ELU+1": sum_elu,
}


class Stack(nn.Module):
    """Pre-LN blocks, and nothing before or after them that would dilute the comparison."""

    def __init__(self, attention: MakeAttention, backend: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            Block(MODEL_DIM, attention(backend), FeedForward(MODEL_DIM, HIDDEN_DIM), pre_norm=True)
            for _ in range(LAYERS)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The output of the last block."""
        for block in self.blocks:
            x, _ = block(x)
        return x


def make(attention: MakeAttention, backend: str = "auto") -> Stack:
    """A stack with the same weights every time."""
    torch.manual_seed(0)
    return Stack(attention, backend)


def stack_error(attention: MakeAttention) -> float:
    """How far output and gradients are from the same stack in float64 with the step-by-step backend."""
    x = torch.randn(1, CHECKED_STEPS, MODEL_DIM, generator=torch.Generator().manual_seed(2))
    stack, definition = make(attention), make(attention, "recurrent").double()
    results = []
    for module, given in ((stack, x), (definition, x.double())):
        output = module(given)
        gradients = torch.autograd.grad(output.square().mean(), list(module.parameters()))
        results.append([output.detach(), *gradients])
    errors = [(got - wanted).abs().amax() / wanted.abs().amax() for got, wanted in zip(*results, strict=True)]
    return torch.stack(errors).nan_to_num(nan=torch.inf).max().item()


def training_step(stack: Stack) -> Callable[[], None]:
    """Forward, backward and one step of AdamW."""
    optimiser = torch.optim.AdamW(stack.parameters(), lr=1e-4)
    x = torch.randn(BATCH, STEPS, MODEL_DIM, generator=torch.Generator().manual_seed(3))

    def step() -> None:
        optimiser.zero_grad()
        stack(x).square().mean().backward()
        optimiser.step()

    return step


@dataclass(frozen=True)
class StackMeasurement:
    """Seconds per training step by attention."""

    threads: int = 2
    seconds: float = 2.5
    attentions: tuple[str, ...] = tuple(ATTENTIONS)

    @property
    def name(self) -> str:
        return f"stack threads{self.threads}"

    @property
    def expected_seconds(self) -> float:
        """A guess, for the time left."""
        return 5 + len(self.attentions) * (self.seconds + 3)

    def run(self) -> Json:
        """Times of the stacks that agree with their definition."""
        torch.set_num_threads(self.threads)
        errors = {name: stack_error(ATTENTIONS[name]) for name in self.attentions}
        agreed = [name for name in self.attentions if errors[name] <= TOLERANCE]
        calls: dict[str, Callable[[], Times]] = {}
        for name in agreed:
            calls[name] = stopwatch("training", training_step(make(ATTENTIONS[name])))
            calls[name]()
        times, yardstick = race_with_yardstick(calls, self.seconds)
        return {
            "threads": self.threads,
            **yardstick,
            "missing": {},
            "errors": {name: readable(value) for name, value in errors.items()},
            "refused": [name for name in self.attentions if name not in agreed],
            "times": times,
        }


def table(record: SpeedRecord) -> Table:
    """Training steps of the small Transformer."""
    rows = []
    for measured in record.kind("stack"):
        softmax = best(measured["times"], "softmax", "training")
        for name in measured["times"]:
            seconds = best(measured["times"], name, "training")
            rows.append((name, str(measured["threads"]), milliseconds(seconds), ratio(softmax, seconds)))
    columns = ("attention", "threads", "training step ms", "faster than softmax")
    return Table("A training step: 4 layers, 256 wide, 8 heads, batch 4, t = 1024", columns, rows)
