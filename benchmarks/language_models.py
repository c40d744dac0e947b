"""Language models as a user trains and runs them: the CPU preset with a memory, with softmax, and on a peer's rule."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from typing_extensions import override

from benchmarks.competitors import COMPETITORS
from benchmarks.entries import TOLERANCE
from benchmarks.gemm import race_with_yardstick
from benchmarks.operators import readable
from benchmarks.record import SpeedRecord
from benchmarks.table import NOTHING, Table, best, ratio
from benchmarks.timing import Json, Times, stopwatch
from fastweights import FastWeightAttention, FastWeightState
from fastweights.experiments.language_models.presets import PRESETS
from fastweights.memory import WriteInputs
from fastweights.models.language_model import LanguageModel, LanguageModelConfig

CLUSTERS = {1000: 0.703, 3000: 0.143, 8000: 0.098, 21_278: 0.056}
"""Sizes of the clusters of the adaptive softmax, and how much of WikiText-2 their words are."""
VOCABULARY = sum(CLUSTERS)
TOKENS = 4096
"""In a batch, as many as the preset has."""
MODELS = {"softmax": "cpu-transformer", "delta, ELU+1": "cpu-linear-delta", "delta, DPFP-1": "cpu-dpfp-delta"}
PEER = "delta, DPFP-1, transformers' rule"
BOUND = "projections alone"
LOW = ", bfloat16"
LOW_PRECISION = tuple(f"{name}{LOW}" for name in ("delta, ELU+1", "delta, DPFP-1", BOUND))
"""The same under autocast, where the processor multiplies bfloat16."""
LOW_TOLERANCE = 2**-8
"""Of their losses: half a unit in the last place of bfloat16."""
CHECKED_TOKENS = 48
"""Few enough that no unit of a feed-forward layer is at its kink, where rounding alone decides about a gradient."""


def config_of(name: str, backend: str = "auto") -> LanguageModelConfig:
    """The preset's model, without dropout so that losses can be compared."""
    preset = MODELS.get(name.removesuffix(LOW), "cpu-dpfp-delta")
    config = replace(PRESETS[preset].task.model, vocabulary_size=VOCABULARY, dropout=0.0)
    attention = config.attention
    return replace(config, attention=replace(attention, backend=backend)) if hasattr(attention, "backend") else config


class PeerAttention(FastWeightAttention):
    """The same layer with transformers' chunked rule in place of the operator."""

    def _run(
        self, writes: WriteInputs, queries: Tensor, state: FastWeightState, x: Tensor, causal: bool
    ) -> tuple[Tensor, FastWeightState]:
        peer = COMPETITORS["transformers"]
        inputs = (queries, writes.keys, writes.values, writes.gates["beta"])
        reads = peer.layout(peer.load()(*map(peer.layout, inputs)))
        scale = self.read_scale * peer.read_scale(queries.shape[-1])
        return self.output((scale * reads).transpose(1, 2).flatten(2)), state


class ProjectionsAlone(FastWeightAttention):
    """The same layer with nothing between its projections: no attention could take less time."""

    @override
    def forward(
        self, x: Tensor, state: FastWeightState | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, FastWeightState]:
        _, _, values, *_ = self.projection(x).split(self._sizes, dim=-1)
        return self.output(values), self.initial_state(len(x))


REPLACED = {PEER: PeerAttention, BOUND: ProjectionsAlone}


def make(name: str, backend: str = "auto") -> LanguageModel:
    """A model with the same weights every time."""
    torch.manual_seed(0)
    model = LanguageModel(config_of(name, backend))
    for part in model.modules():
        if name.removesuffix(LOW) in REPLACED and type(part) is FastWeightAttention:
            part.__class__ = REPLACED[name.removesuffix(LOW)]
    return model


def text(batch: int, length: int) -> Tensor:
    """Words as frequent as in WikiText-2, as far as the adaptive softmax cares."""
    frequencies = torch.cat([torch.full((size,), share / size) for size, share in CLUSTERS.items()])
    words = torch.multinomial(
        frequencies, batch * (length + 1), replacement=True, generator=torch.Generator().manual_seed(1)
    )
    return words.view(batch, length + 1)


def loss_of(model: LanguageModel, words: Tensor, low: bool = False) -> Tensor:
    """The mean loss of predicting every next word, in bfloat16 where autocast takes it if `low`."""
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        hidden, _ = model(words[:, :-1])
        return model.losses(hidden, words[:, 1:].contiguous()).mean()


def model_error(name: str) -> float:
    """How far loss and gradients are from the same model in float64 with the step-by-step backend."""
    words = text(2, CHECKED_TOKENS)
    model, definition = make(name), make("delta, DPFP-1" if name == PEER else name, "recurrent").double()
    found, expected = (
        torch.autograd.grad(loss_of(module, words), list(module.parameters())) for module in (model, definition)
    )
    errors = [(got - wanted).abs().amax() / wanted.abs().amax() for got, wanted in zip(found, expected, strict=True)]
    return torch.stack(errors).nan_to_num(nan=torch.inf).max().item()


def low_error(name: str) -> float:
    """How far the loss under autocast is from that of the same model in float64."""
    words = text(2, CHECKED_TOKENS)
    with torch.no_grad():
        found, expected = loss_of(make(name), words, low=True), loss_of(make(name, "recurrent").double(), words)
    return abs(float(found / expected) - 1)


def training_step(model: LanguageModel, words: Tensor, low: bool = False) -> Callable[[], None]:
    """Forward, backward, clipping and one step of Adam."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        loss_of(model, words, low).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimiser.step()

    return step


def multiplies_bfloat16() -> bool:
    """Whether the processor has instructions for it; without them autocast is slower than float32."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


@dataclass(frozen=True)
class TrainingMeasurement:
    """Seconds per training step of TOKENS words, by model, for one length of segments."""

    length: int
    threads: int = 2
    seconds: float = 4.0

    @property
    def name(self) -> str:
        return f"language-model L{self.length} threads{self.threads}"

    @property
    def expected_seconds(self) -> float:
        """A guess, for the time left."""
        return 15 + 9 * self.seconds

    def run(self) -> Json:
        """Times of the models that agree with their definition."""
        torch.set_num_threads(self.threads)
        reason = COMPETITORS["transformers"].missing()
        names = [*MODELS, *([PEER] if reason is None else []), *(LOW_PRECISION if multiplies_bfloat16() else ())]
        errors = {name: low_error(name) if name.endswith(LOW) else model_error(name) for name in names}
        tolerances = {name: LOW_TOLERANCE if name.endswith(LOW) else 10 * TOLERANCE for name in names}
        agreed = [name for name in names if errors[name] <= tolerances[name]]
        words = text(TOKENS // self.length, self.length)
        calls: dict[str, Callable[[], Times]] = {}
        for name in (*agreed, BOUND):
            calls[name] = stopwatch("training", training_step(make(name), words, name.endswith(LOW)))
            calls[name]()
        times, yardstick = race_with_yardstick(calls, self.seconds)
        return {
            "threads": self.threads,
            **yardstick,
            "length": self.length,
            "missing": {} if reason is None else {PEER: reason},
            "errors": {name: readable(value) for name, value in errors.items()},
            "refused": [name for name in names if name not in agreed],
            "times": times,
        }


def table(record: SpeedRecord) -> Table:
    """Training steps of the language model for CPUs."""
    rows = []
    for measured in record.kind("language-model"):
        times = measured["times"]
        softmax, peer = (best(times, name, "training") for name in ("softmax", PEER))
        for name in times:
            seconds = best(times, name, "training")
            bound = best(times, f"{BOUND}{LOW if name.endswith(LOW) else ''}", "training")
            speed = NOTHING if seconds is None else f"{TOKENS / seconds:,.0f}"
            rows.append(
                (
                    name,
                    str(measured["length"]),
                    str(measured["threads"]),
                    speed,
                    ratio(softmax, seconds),
                    ratio(peer, seconds),
                    NOTHING if bound is None or seconds is None else f"{100 * bound / seconds:.0f} %",
                )
            )
    columns = (
        "attention",
        "L",
        "threads",
        "words per second",
        "faster than softmax",
        "than transformers' rule",
        "of the speed without attention",
    )
    return Table(f"Training the language model for CPUs, {TOKENS} words a step in segments of L", columns, rows)
