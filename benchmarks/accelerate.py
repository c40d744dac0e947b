"""Models of transformers as they are and on the operator: prefill, training step and decoding, in turns."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
import transformers
from torch import Tensor

from benchmarks.operators import readable
from benchmarks.record import SpeedRecord
from benchmarks.table import NOTHING, Table, best, milliseconds
from benchmarks.timing import Json, race, stopwatch
from fastweights.hf import accelerate

LENGTHS = (1024, 4096)
TRAINED = 1024
DECODED = 16
"""Tokens timed together."""
TOLERANCE = 1e-4
"""Largest difference of logits."""

FREE = "rule for free"
RULES_OF_SEQUENCES = {"torch_chunk_gated_delta_rule", "chunk_kimi_delta_attention", "mamba2_chunk_scan"}

COMMON = {"vocab_size": 1000, "hidden_size": 512, "num_hidden_layers": 4}
MIXED = {"layer_types": ["linear_attention"] * 3 + ["full_attention"], "intermediate_size": 1024}
ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128}
EXPERTS = {"num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 256}


def linear(size: int) -> dict[str, int]:
    """Heads of this size, and twice as many of them for values as for keys."""
    return {"linear_num_key_heads": 4, "linear_num_value_heads": 8} | dict.fromkeys(
        ("linear_key_head_dim", "linear_value_head_dim"), size
    )


MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3_5, heads of 128": ("qwen3_5", "Qwen3_5TextConfig", MIXED | ATTENTION | linear(128)),
    "qwen3_next, 16 experts, heads of 128": (
        "qwen3_next",
        "Qwen3NextConfig",
        MIXED | ATTENTION | EXPERTS | linear(128) | {"shared_expert_intermediate_size": 256},
    ),
    "qwen3_5, heads of 64": ("qwen3_5", "Qwen3_5TextConfig", MIXED | ATTENTION | linear(64)),
    "mamba2, 16 heads of 64, state 128": (
        "mamba2",
        "Mamba2Config",
        {"num_heads": 16, "head_dim": 64, "state_size": 128, "n_groups": 1},
    ),
    "kimi_linear, 8 heads of 128": (
        "kimi_linear",
        "KimiLinearConfig",
        MIXED
        | {"num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 128, "linear_num_heads": 8}
        | {"linear_head_dim": 128, "mlp_layer_types": ["dense"] * 4},
    ),
}
"""Architecture, configuration class and its options, by what the table calls them."""


def make(name: str, **changes: Any) -> Any:
    """A model with the same random weights every time."""
    architecture, config, options = MODELS[name]
    package = f"transformers.models.{architecture}"
    configuration = getattr(import_module(f"{package}.configuration_{architecture}"), config)
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(configuration(**COMMON | tokens | options | changes)).eval()


def tokens(length: int) -> Tensor:
    """One row of random token ids."""
    return torch.randint(3, COMMON["vocab_size"], (1, length), generator=torch.Generator().manual_seed(1))


def calls_of(model: Any, lengths: tuple[int, ...], trained: int) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""

    def prefill(length: int) -> Callable[[], object]:
        ids = tokens(length)

        def run() -> None:
            with torch.no_grad():
                model(ids, use_cache=True, logits_to_keep=1)

        return run

    def train() -> None:
        model.zero_grad()
        model(tokens(trained), use_cache=False).logits.logsumexp(dim=-1).mean().backward()

    def decode() -> None:
        model.generate(tokens(16), max_new_tokens=DECODED, min_new_tokens=DECODED, do_sample=False)

    named = {f"prefill {length}": prefill(length) for length in lengths}
    return named | {f"training step {trained}": train, "decoding": decode}


def both_ways(architecture: str, what: str, call: Callable[[], object]) -> dict[str, Callable[[], dict[str, float]]]:
    """The call on transformers' own functions, and the same on the operator."""

    watch = stopwatch("call", call)

    def inside(context: Callable[[], AbstractContextManager[Any]]) -> Callable[[], dict[str, float]]:
        def run() -> dict[str, float]:
            with context():  # what putting functions in place costs is no part of the call
                return watch()

        return run

    contexts: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "stock": nullcontext,
        "accelerated": lambda: accelerate(architecture),
    }
    if what.startswith("prefill"):
        contexts[FREE] = lambda: rule_for_free(architecture)
    return {f"{what}: {who}": inside(context) for who, context in contexts.items()}


@contextmanager
def rule_for_free(architecture: str) -> Iterator[None]:
    """The accelerated model with a rule that takes no time: what the layers and the attention around it need."""

    def nothing(query: Tensor, key: Tensor, value: Tensor, **others: Any) -> tuple[Tensor, Tensor]:
        """Values in the place of reads, and an empty state k × v."""
        return value.contiguous(), value.new_zeros(*value.shape[::2], key.shape[3], value.shape[3])

    def nothing_of_mamba2(x: Tensor, dt: Tensor, rate: Tensor, key: Tensor, *rest: Any, **named: Any) -> Any:
        """The same with a state p × n."""
        return x.contiguous(), x.new_zeros(*x.shape[::2], x.shape[3], key.shape[3])

    with accelerate(architecture):
        module = import_module(f"transformers.models.{architecture}.modeling_{architecture}")
        (rule,) = RULES_OF_SEQUENCES & vars(module).keys()
        replaced = getattr(module, rule)
        setattr(module, rule, nothing_of_mamba2 if rule == "mamba2_chunk_scan" else nothing)
        try:
            yield
        finally:
            setattr(module, rule, replaced)


@dataclass(frozen=True)
class AccelerationMeasurement:
    """Seconds of whole calls of one model, stock and accelerated in turns."""

    model: str
    threads: int = 2
    seconds: float = 2.0
    lengths: tuple[int, ...] = LENGTHS
    trained: int = TRAINED

    @property
    def name(self) -> str:
        return f"accelerate {self.model} threads{self.threads}"

    @property
    def expected_seconds(self) -> float:
        """A guess, for the time left."""
        return 45 if "kimi" not in self.model else 140

    def run(self) -> Json:
        """Times of both, if they agree."""
        transformers.logging.set_verbosity_error()
        torch.set_num_threads(self.threads)
        model, architecture = make(self.model), MODELS[self.model][0]
        ids = tokens(200)
        with torch.no_grad():
            stock = model(ids).logits
            with accelerate(architecture):
                error = (model(ids).logits - stock).abs().max().item()
        if not error <= TOLERANCE:
            return {"threads": self.threads, "errors": {}, "refused": [self.model], "times": {}}
        times: Json = {}
        for what, call in calls_of(model, self.lengths, self.trained).items():
            times |= race(both_ways(architecture, what, call), self.seconds)
        return {"threads": self.threads, "errors": {self.model: readable(error)}, "refused": [], "times": times}


def table(record: SpeedRecord) -> Table:
    """Whole calls of models of transformers, and how many times as fast they are on the operator."""
    rows = []
    for name, measured in record.measurements.items():
        if not name.startswith("accelerate "):
            continue
        model = name.removeprefix("accelerate ").rpartition(" threads")[0]
        times = measured["times"]
        for what in dict.fromkeys(key.rpartition(": ")[0] for key in times):
            tokens = DECODED if what == "decoding" else 1
            stock, ours, free = (best(times, f"{what}: {who}", "call") for who in ("stock", "accelerated", FREE))
            cells = (milliseconds(None if time is None else time / tokens) for time in (stock, ours))
            gains = (NOTHING if None in (stock, time) else f"{stock / time:.2f} ×" for time in (ours, free))
            shown = "decoding, per token" if what == "decoding" else what
            rows.append((model, str(measured["threads"]), shown, *cells, *gains))
    columns = ("model", "threads", "call", "transformers ms", "accelerated ms", "faster", "with the rule for free")
    return Table("Models of transformers: 512 wide, 4 layers, batch 1", columns, rows)
