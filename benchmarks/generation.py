"""The next word, by how many words were read before: a memory, softmax, and transformers' generate of a GPT-2."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from benchmarks.competitors import missing_transformers
from benchmarks.gemm import race_with_yardstick
from benchmarks.language_models import VOCABULARY, config_of, make, text
from benchmarks.record import SpeedRecord
from benchmarks.table import NOTHING, Table, best, milliseconds, percent, ratio, share_of
from benchmarks.timing import Json, Times
from fastweights.models.language_model import LanguageModel

CONTEXTS = (100, 1000, 10_000, 100_000)
BURST = 16
"""Words timed together."""
SHORT = 10_000
"""Softmax attention keeps every word: further back it is not measured."""
PEER_CONTEXT = 1000
GPT2, OWN = "GPT-2 by transformers' generate", "delta, DPFP-1, by transformers' generate"
FLOOR = "constant logits by transformers' generate"
"""A model that computes nothing: what transformers' loop takes by itself."""


@dataclass(frozen=True)
class GenerationMeasurement:
    """Seconds per generated word after so many words of context, and what the model then remembers, in bytes."""

    threads: int = 2
    seconds: float = 3.0
    contexts: tuple[int, ...] = CONTEXTS

    name = "generation"
    expected_seconds = 60.0

    def run(self) -> Json:
        """Times in turns over all models and contexts."""
        torch.set_num_threads(self.threads)
        calls: dict[str, Callable[[], Times]] = {}
        memory: dict[str, int] = {}
        for name in ("delta, DPFP-1", "softmax"):
            model = make(name).eval()
            for context in self.contexts:
                if name == "softmax" and context > SHORT:
                    continue
                states = after(model, context)
                calls[f"{name} after {context}"] = burst(model, states)
                memory[f"{name} after {context}"] = sum(map(bytes_of, states))
        missing = missing_transformers()
        if missing is None:
            for name, load in ((OWN, own), (GPT2, gpt2), (FLOOR, constant)):
                calls[f"{name} after {PEER_CONTEXT}"] = generate(load())
                memory[f"{name} after {PEER_CONTEXT}"] = 0
        times, yardstick = race_with_yardstick(calls, self.seconds)
        return {
            "threads": self.threads,
            **yardstick,
            "missing": {} if missing is None else {GPT2: missing},
            "errors": {},
            "refused": [],
            "bytes": memory,
            "times": times,
        }


def after(model: LanguageModel, context: int) -> list[Any]:
    """The states of all layers after so many words."""
    states: list[Any] | None = None
    with torch.inference_mode():
        for part in text(1, context)[:, :-1].split(512, dim=1):
            _, states = model(part, states)
    assert states is not None
    return states


def burst(model: LanguageModel, before: list[Any]) -> Callable[[], Times]:
    """Seconds per word over a few words, the likeliest each time, that follow what was read before."""

    def timed() -> Times:
        states, word = before, torch.zeros(1, 1, dtype=torch.int64)
        start = perf_counter()
        with torch.inference_mode():
            for _ in range(BURST):
                hidden, states = model(word, states)
                word = torch.tensor([[model.scores(hidden[0, -1]).likeliest()]])
        return {"word": (perf_counter() - start) / BURST}

    return timed


def bytes_of(state: Any) -> int:
    """Of all tensors that a state holds."""
    tensors = [value for value in vars(state).values() if isinstance(value, Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def own() -> Any:
    """The CPU model behind Hugging Face's interface."""
    from fastweights.hf import FastWeightForCausalLM

    return FastWeightForCausalLM.of(make("delta, DPFP-1").eval())


def gpt2() -> Any:
    """A GPT-2 with as many layers, heads and words, as wide as the CPU model."""
    from transformers import GPT2Config, GPT2LMHeadModel

    like = config_of("softmax")
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=PEER_CONTEXT + 2 * BURST,
        n_embd=like.model_dim,
        n_layer=like.num_layers,
        n_head=like.num_heads,
        n_inner=like.feed_forward_dim,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    return GPT2LMHeadModel(config).eval()


def constant() -> Any:
    """The GPT-2 with the same logits for every text, whatever it has read."""
    from transformers.modeling_outputs import CausalLMOutputWithPast

    model, logits = gpt2(), torch.randn(1, 1, VOCABULARY)

    def forward(input_ids: Tensor, past_key_values: Any = None, **others: Any) -> Any:
        return CausalLMOutputWithPast(logits=logits, past_key_values=past_key_values)  # type: ignore[arg-type]

    model.forward = forward
    return model


def generate(model: Any) -> Callable[[], Times]:
    """Seconds per word of `generate`: those of many words less those of one, whose prompt takes most of the time."""
    prompt = text(1, PEER_CONTEXT)[:, :-1]
    write = partial(model.generate, prompt, attention_mask=torch.ones_like(prompt), do_sample=False, pad_token_id=0)

    def seconds(words: int) -> float:
        start = perf_counter()
        write(max_new_tokens=words, min_new_tokens=words)
        return perf_counter() - start

    def timed() -> Times:
        return {"word": (seconds(1 + BURST) - min(seconds(1) for _ in range(2))) / BURST}

    return timed


def table(record: SpeedRecord) -> Table:
    """Time and memory for the next word, by how many words were read before."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "generation"):
        for name in measured["times"]:
            model, _, context = name.partition(" after ")
            first = best(measured["times"], f"{model} after {CONTEXTS[0]}", "word")
            peer = best(measured["times"], f"{GPT2} after {context}", "word")
            seconds = best(measured["times"], name, "word")
            size = f"{measured['bytes'][name] / 2**10:,.0f}" if measured["bytes"][name] else NOTHING
            cells = (milliseconds(seconds), percent(share_of(seconds, first)), ratio(peer, seconds), size)
            rows.append((model, f"{int(context):,}", *cells))
    after = f"of that after {CONTEXTS[0]}"
    columns = ("attention", "words before", "ms per word", after, "faster than transformers' GPT-2", "state KiB")
    return Table("Generating with the language model for CPUs", columns, rows)
