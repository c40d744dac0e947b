"""Translators as a user trains and runs them: a step at the lengths of Multi30k, sentences, one long document."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

import torch
from torch import Tensor, nn

from benchmarks.entries import TOLERANCE
from benchmarks.gemm import race_with_yardstick
from benchmarks.operators import readable
from benchmarks.record import SpeedRecord
from benchmarks.table import NOTHING, Table, best, milliseconds
from benchmarks.timing import Json, Times, race, stopwatch
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.experiments.translation.presets import PRESETS
from fastweights.hf import FastWeightForSeq2SeqLM
from fastweights.memory import LayerState
from fastweights.models.translator import Translator, TranslatorConfig

SIZE = "translation-cpu-"
MODELS = tuple(name.removeprefix(SIZE) for name in PRESETS if name.startswith(SIZE))
PAIRS, LENGTH = 68, 17
"""A batch of 1,250 tokens of Multi30k."""
SENTENCES, AT_ONCE = 256, 64
DOCUMENT = (50, 500, 5000)
"""Tokens of source and translation that are behind a step that is timed."""
BURST = 16
"""Tokens timed together."""


def config_of(name: str) -> TranslatorConfig:
    """The preset's model, without dropout so that losses can be compared."""
    task = PRESETS[f"{SIZE}{name}"].task
    assert isinstance(task, TranslationConfig)
    return replace(task.model, dropout=0.0)


def make(name: str) -> Translator:
    """A model with the same weights every time; random features stay as they were drawn."""
    torch.manual_seed(0)
    return Translator(config_of(name)).eval()


def tokens(rows: int, length: int) -> Tensor:
    """Token ids that are no special symbols."""
    return torch.randint(3, 4000, (rows, length), generator=torch.Generator().manual_seed(1))


def loss_of(model: Translator, source: Tensor, target: Tensor) -> Tensor:
    """The smoothed loss per target token, with a few padded steps as every batch has them."""
    mask = torch.ones_like(source, dtype=torch.bool)
    mask[::8, -2:] = False
    hidden = model(source, target[:, :-1], mask)
    return model.losses(hidden, target[:, 1:].contiguous(), 0.1).mean()


def model_error(name: str) -> float:
    """How far loss and gradients are from the same model in float64."""
    source, target = tokens(2, 9), tokens(2, 8)
    model, definition = make(name), make(name).double()
    found, expected = (
        torch.autograd.grad(loss_of(module, source, target), list(module.parameters()))
        for module in (model, definition)
    )
    errors = [(got - wanted).abs().amax() / wanted.abs().amax() for got, wanted in zip(found, expected, strict=True)]
    return torch.stack(errors).nan_to_num(nan=torch.inf).max().item()


def training_step(model: Translator) -> Callable[[], None]:
    """Forward, backward, clipping and one step of Adam."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
    source, target = tokens(PAIRS, LENGTH), tokens(PAIRS, LENGTH + 1)

    def step() -> None:
        optimiser.zero_grad()
        loss_of(model, source, target).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return step


@dataclass(frozen=True)
class TranslationTrainingMeasurement:
    """Seconds per training step of every model of Table 1."""

    threads: int = 1
    seconds: float = 4.0
    models: tuple[str, ...] = MODELS

    @property
    def name(self) -> str:
        return f"translation-training threads{self.threads}"

    @property
    def expected_seconds(self) -> float:
        """A guess, for the time left."""
        return 10 + len(self.models) * self.seconds

    def run(self) -> Json:
        """Times of the models that agree with their definition."""
        torch.set_num_threads(self.threads)
        errors = {name: model_error(name) for name in self.models}
        agreed = [name for name in self.models if errors[name] <= TOLERANCE]
        calls = {name: stopwatch("training", training_step(make(name))) for name in agreed}
        results, yardstick = race_with_yardstick(calls, self.seconds)
        return {
            "threads": self.threads,
            "errors": {name: readable(value) for name, value in errors.items()},
            "refused": [name for name in self.models if name not in agreed],
            **yardstick,
            "times": results,
        }


@dataclass(frozen=True)
class TranslationDecodingMeasurement:
    """Some sentences by `generate`, every translation as long as its source, and single steps far into a document."""

    threads: int = 1
    sentences: int = SENTENCES
    document: tuple[int, ...] = DOCUMENT
    models: tuple[str, ...] = MODELS

    @property
    def name(self) -> str:
        return f"translation-decoding threads{self.threads}"

    @property
    def expected_seconds(self) -> float:
        """A guess, for the time left."""
        return 5 + len(self.models) * (2 + 0.038 * self.sentences)

    def run(self) -> Json:
        """Sentences per second by beams, and seconds and bytes per token by what is behind it."""
        torch.set_num_threads(self.threads)
        sentences = {
            name: {str(beams): round(self._sentences_per_second(name, beams), 2) for beams in (1, 4)}
            for name in self.models
        }
        times = {
            name: {str(behind): _late_step(make(name), behind) for behind in self.document} for name in self.models
        }
        return {"threads": self.threads, "errors": {}, "refused": [], "sentences": sentences, "document": times}

    def _sentences_per_second(self, name: str, beams: int) -> float:
        wrapped, source = FastWeightForSeq2SeqLM.of(make(name)), tokens(self.sentences, LENGTH)
        started = perf_counter()
        for batch in source.split(AT_ONCE):
            wrapped.generate(
                batch,
                attention_mask=torch.ones_like(batch),
                num_beams=beams,
                length_penalty=0.6 if beams > 1 else None,
                min_new_tokens=LENGTH,
                max_new_tokens=LENGTH,
            )
        return self.sentences / (perf_counter() - started)


@torch.no_grad()
def _late_step(model: Translator, behind: int) -> Json:
    """Seconds of a step of the decoder after so many tokens of source and translation, and bytes of what is kept."""
    memories = model.write(model.encode(tokens(1, behind)))
    _, states = model.decode(tokens(1, behind), memories)
    kept: list[LayerState] = [*memories, *states]
    size = sum(tensor.numel() * tensor.element_size() for state in kept for tensor in state.tensors().values())

    def burst() -> Times:
        after, start = states, perf_counter()
        for token in tokens(BURST, 1)[:, None]:
            _, after = model.decode(token, memories, after)
        return {"step": (perf_counter() - start) / BURST}

    return {**race({"step": burst}, 0.3)["step"]["step"], "bytes": size}


def table(record: SpeedRecord) -> Table:
    """A training step as a multiple of softmax's, and how many sentences are translated in a second."""
    decoded = {measured["threads"]: measured["sentences"] for measured in record.kind("translation-decoding")}
    rows = []
    for measured in record.kind("translation-training"):
        softmax = best(measured["times"], "standard", "training")
        for name in measured["times"]:
            step = best(measured["times"], name, "training")
            speeds = decoded.get(measured["threads"], {}).get(name, {})
            multiple = NOTHING if step is None or softmax is None else f"{step / softmax:.2f} ×"
            speed = [f"{speeds[beams]:.0f}" if beams in speeds else NOTHING for beams in ("1", "4")]
            rows.append((name, str(measured["threads"]), milliseconds(step), multiple, *speed))
    columns = ("model", "threads", "ms a step", "of softmax", "sentences/s, greedy", "beam 4")
    return Table(f"Translators: a training step of {PAIRS} pairs of {LENGTH} tokens, and decoding", columns, rows)


def document_table(record: SpeedRecord) -> Table:
    """Time and memory of a decoder's step by what is behind it."""
    rows = [
        (name, str(measured["threads"]), *(_step_and_size(part) for part in parts.values()))
        for measured in record.kind("translation-decoding")
        for name, parts in measured["document"].items()
    ]
    behind = next((list(parts) for m in record.kind("translation-decoding") for parts in m["document"].values()), [])
    heads = (f"ms a token, kB kept after {count} tokens" for count in behind)
    return Table("Translation of one document, token by token", ("model", "threads", *heads), rows)


def _step_and_size(part: Json) -> str:
    return f"{milliseconds(part['best'])}, {part['bytes'] / 1000:.0f}"
