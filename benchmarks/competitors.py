"""Who takes part: every implementation behind the same call, with what makes it differ kept outside the clock."""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.problems import ATTENTION, MEMORY, Problem
from fastweights import backends, fast_weight_scan


@dataclass(frozen=True)
class Competitor:
    """One implementation of a problem: `load()` gives the function from inputs to reads."""

    name: str
    label: str
    problem: Problem
    load: Callable[[], Callable[..., Tensor]]
    missing: Callable[[], str | None]
    time_before_heads: bool = False
    """It wants and returns b t h · instead of b h t ·."""
    divides_reads: bool = False
    """It divides queries, and so reads, by √k."""

    def layout(self, x: Tensor) -> Tensor:
        """From b h t · to the competitor's own layout, and back."""
        return x.transpose(1, 2).contiguous() if self.time_before_heads else x

    def read_scale(self, key_dim: int) -> float:
        """What its reads have to be multiplied with."""
        return math.sqrt(key_dim) if self.divides_reads else 1.0


def scan(queries: Tensor, keys: Tensor, values: Tensor, strengths: Tensor, *, backend: str) -> Tensor:
    """This project's operator: the reads of the delta rule."""
    return fast_weight_scan(queries, keys, values, strengths, strengths, backend=backend)[0]


def missing_backend(name: str) -> str | None:
    """Why a backend of this project cannot take part; None if it can."""
    status = backends()[name]
    return None if status.available else status.reason


def load_transformers() -> Callable[..., Tensor]:
    """The pure-PyTorch chunked rule of transformers, with a decay of one (its logarithm is zero)."""
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule
    from transformers.utils import logging

    # It warns that it is the slow path, which is the one meant here.
    logging.set_verbosity_error()

    def run(queries: Tensor, keys: Tensor, values: Tensor, strengths: Tensor) -> Tensor:
        reads: Tensor = torch_chunk_gated_delta_rule(
            queries, keys, values, torch.zeros_like(strengths), strengths, use_qk_l2norm_in_kernel=False
        )[0]
        return reads

    return run


def missing_transformers() -> str | None:
    """Why transformers' pure-PyTorch rule cannot take part; None if it can."""
    if importlib.util.find_spec("transformers") is None:
        return "transformers is not installed; pip install 'fastweights[hf]'"
    if importlib.util.find_spec("fla") is not None:
        return "flash-linear-attention is installed, so that transformers would run that instead"
    return None


def load_attention() -> Callable[..., Tensor]:
    """PyTorch's causal softmax attention."""
    return partial(scaled_dot_product_attention, is_causal=True)


COMPETITORS = {
    competitor.name: competitor
    for competitor in (
        Competitor(
            "native", "fastweights native", MEMORY, lambda: partial(scan, backend="native"),
            partial(missing_backend, "native"),
        ),
        Competitor(
            "chunked", "fastweights chunked (PyTorch)", MEMORY, lambda: partial(scan, backend="chunked"),
            partial(missing_backend, "chunked"),
        ),
        Competitor(
            "transformers", "transformers chunked (PyTorch)", MEMORY, load_transformers, missing_transformers,
            time_before_heads=True, divides_reads=True,
        ),
        Competitor("sdpa", "softmax attention (PyTorch SDPA)", ATTENTION, load_attention, lambda: None),
    )
}  # fmt: skip
