"""A stream of writes into one memory, and what the memory is like after 1, 2, 3, 6, 10, … steps."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fastweights.data.retrieval import torch_generator
from fastweights.experiments.growth.config import GrowthConfig
from fastweights.memory import FastWeightState, Observation, WriteInputs, run_rule
from fastweights.memory.trace import trace
from fastweights.memory.whole_sequence import read_memory
from fastweights.shapes import Keys

CHUNK, WINDOW = 4096, 256
"""Steps that are written at once; steps before each measurement whose writes are traced."""
PER_DECADE = 4
STREAM = 5
"""What the random numbers of a stream are for; beside the purposes in data/retrieval.py."""
TRACED = ("landing", "balance", "eigenvalue", "error_after")


class Stretch(NamedTuple):
    """Some steps of the stream: which key each writes, and the value."""

    chosen: Tensor
    values: Tensor


def measured_steps(length: int) -> list[int]:
    """1, 2, 3, 6, 10, 18, … up to the length: four in a decade."""
    exponents = range(PER_DECADE * math.ceil(math.log10(max(length, 2))) + 1)
    return sorted({round(10 ** (n / PER_DECADE)) for n in exponents if 10 ** (n / PER_DECADE) <= length} | {length})


def segments(length: int) -> Iterator[tuple[int, int, bool]]:
    """Start and end of pieces that cover the stream, and whether a measurement follows: then the piece is traced."""
    start = 0
    for end in measured_steps(length):
        window = min(WINDOW, end - start)
        while start < end - window:
            stop = min(start + CHUNK, end - window)
            yield start, stop, False
            start = stop
        yield start, end, True
        start = end


@torch.no_grad()
def run_stream(config: GrowthConfig, keys: Keys, seed: int) -> dict[str, list[float]]:
    """Columns of numbers by step: means over sequences, heads and keys, medians of what is traced."""
    memory = _Memory(config, keys)
    columns: dict[str, list[float]] = {"step": []}
    for start, end, measured in segments(config.length):
        piece = _draw(config, keys, end - start, torch_generator(seed, STREAM, start))
        traced = memory.write(piece, traced=measured)
        if not measured:
            continue
        columns["step"].append(end)
        for name, value in (memory.measure() | traced).items():
            columns.setdefault(name, []).append(value)
    return columns


def _draw(config: GrowthConfig, keys: Keys, steps: int, generator: torch.Generator) -> Stretch:
    batch, heads = keys.shape[:2]
    return Stretch(
        torch.randint(config.num_keys, (batch, heads, steps), generator=generator),
        torch.randn(batch, heads, steps, config.value_dim, generator=generator),
    )


class _Memory:
    """The memory, the keys that it is written under, and the value that was last written under each."""

    def __init__(self, config: GrowthConfig, keys: Keys) -> None:
        self.config, self.keys = config, keys
        batch, heads, number, features = keys.shape
        attention = config.attention_normalisation
        needed = attention is not None or config.update_rule.needs_normaliser
        self.state = FastWeightState.zeros(batch, heads, config.value_dim, features, normaliser=needed)
        self.last = torch.full((batch, heads, number, config.value_dim), torch.nan)

    def write(self, piece: Stretch, *, traced: bool) -> dict[str, float]:
        """Write some steps; medians of what their writes did if they are traced."""
        observations = []
        steps = piece.chosen.shape[2]
        for part in [slice(t, t + 1) for t in range(steps)] if self.config.state == "bfloat16" else [slice(0, steps)]:
            observations.append(self._observe(Stretch(piece.chosen[:, :, part], piece.values[:, :, part])))
        self._remember(piece)
        if not traced:
            return {}
        found = [trace(observation)[0] for observation in observations]
        return {name: torch.cat([x[name] for x in found], dim=2).nanmedian().item() for name in TRACED}

    def measure(self) -> dict[str, float]:
        """What reading with every key gives, and how large the memory is."""
        config, state = self.config, self.state
        reads = read_memory(config.update_rule, state, self.keys, config.attention_normalisation)
        seen = ~self.last.isnan().any(dim=-1)
        errors = (reads - self.last).norm(dim=-1) / self.last.norm(dim=-1)
        measured = {
            "error": errors[seen].mean(),
            "read": reads[seen].norm(dim=-1).mean(),
            "weights": state.weights.norm(dim=(-2, -1)).mean(),
        }
        if state.normaliser is not None:
            measured["normaliser"] = state.normaliser.norm(dim=-1).mean()
            measured["overlap"] = torch.einsum("bhk,bhnk->bhn", state.normaliser, self.keys)[seen].mean()
        return {name: value.item() for name, value in measured.items()}

    def _observe(self, piece: Stretch) -> Observation:
        """Write a piece at once, and round the state if it is kept in bfloat16."""
        config, before = self.config, self.state
        index = piece.chosen[..., None].expand(-1, -1, -1, self.keys.shape[-1])
        beta = torch.full(piece.chosen.shape, config.strength)
        writes = WriteInputs(self.keys.gather(2, index), piece.values, {"beta": beta})
        attention = config.attention_normalisation
        _, after = run_rule(config.update_rule, writes, writes.keys, before, attention_normalisation=attention)
        if config.state == "bfloat16":
            rounded = {name: x.bfloat16().float() for name, x in after.tensors().items() if x.is_floating_point()}
            after = replace(after, **rounded)
        self.state = after
        return Observation(config.update_rule, writes, before, attention)

    def _remember(self, piece: Stretch) -> None:
        positions = torch.arange(piece.chosen.shape[2]).expand_as(piece.chosen)
        never = torch.full(self.last.shape[:3], -1)
        last = never.scatter_reduce(2, piece.chosen, positions, reduce="amax")
        index = last.clamp(min=0)[..., None].expand(-1, -1, -1, piece.values.shape[-1])
        self.last = torch.where((last >= 0)[..., None], piece.values.gather(2, index), self.last)
