"""The evaluation of the synthetic experiments: as the paper's text has it, and as its published code did it."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fastweights.data.retrieval import EVALUATION_FEATURES, RetrievalBatch, RetrievalProblem, torch_generator
from fastweights.experiments.retrieval.model import RetrievalModel, retrieval_loss

Length = Literal["2S", "S"]
Average = Literal["queries", "chunks"]
Losses = Float[Tensor, "b q"]


@dataclass(frozen=True)
class EvaluationProtocol:
    """Fresh sequences, each asked for every key it has; the mean of their losses.

    `length` counts in the overwriting setting only: without replacement a sequence has S pairs. `max_queries` keeps
    the keys of lowest index. "chunks" averages first over chunks of as many queries of one sequence as a training batch
    has sequences, so that a last, shorter chunk counts as much as a full one. `redraw` draws random features afresh
    for every chunk instead of once for the run.
    """

    sequences: int = 20
    length: Length = "2S"
    max_queries: int | None = None
    average: Average = "queries"
    redraw: bool = False

    def __post_init__(self) -> None:
        counts = {"sequences": self.sequences, "max_queries": 1 if self.max_queries is None else self.max_queries}
        for name, count in counts.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name}: must be an integer of at least 1, got {count!r}")
        for name, choice, possible in (
            ("length", self.length, get_args(Length)),
            ("average", self.average, get_args(Average)),
        ):
            if choice not in possible:
                raise ValueError(f"{name}: must be one of {', '.join(possible)}, got {choice!r}")


AS_WRITTEN = EvaluationProtocol()
"""Sec. 6.1: "we sample 20 sequences and test all possible queries"."""

AS_PUBLISHED = EvaluationProtocol(length="S", max_queries=200, average="chunks", redraw=True)
"""The evaluation of the published code, and so of its logs."""


@torch.no_grad()
def evaluate(
    model: RetrievalModel,
    problem: RetrievalProblem,
    protocol: EvaluationProtocol,
    *,
    chunk_size: int,
    seed: int,
    step: int,
) -> float:
    """The loss of a model by a protocol: a pure function of the model's parameters, the seed and the step."""
    length = problem.length if protocol.length == "2S" else problem.num_keys
    batch = problem.evaluation(protocol.sequences, length, protocol.max_queries, seed=seed, step=step)
    fixed = model.draw_features(torch_generator(seed, EVALUATION_FEATURES))
    if protocol.redraw and fixed is not None:
        losses = _losses_with_redraws(model, batch, chunk_size, seed, step)
    else:
        losses = retrieval_loss(model(*batch[:3], fixed), batch.targets)
    if protocol.average == "queries":
        return losses[batch.query_mask].mean().item()
    return chunk_weighted_mean(losses, batch.query_mask, chunk_size)


def chunk_weighted_mean(losses: Losses, query_mask: Bool[Tensor, "b q"], chunk_size: int) -> float:
    """The mean over all chunks of the mean loss of each."""
    chunks = zip(losses.split(chunk_size, dim=1), query_mask.split(chunk_size, dim=1), strict=True)
    means = [
        torch.where(real, loss, 0.0).sum(dim=1)[real.any(dim=1)] / real.sum(dim=1)[real.any(dim=1)]
        for loss, real in chunks
    ]
    return torch.cat(means).mean().item()


def _losses_with_redraws(model: RetrievalModel, batch: RetrievalBatch, chunk_size: int, seed: int, step: int) -> Losses:
    """The losses where every chunk of every sequence has random features of its own."""
    losses = torch.empty(batch.queries.shape)
    for n in range(losses.shape[0]):
        for start in range(0, losses.shape[1], chunk_size):
            chunk = slice(start, start + chunk_size)
            features = model.draw_features(torch_generator(seed, EVALUATION_FEATURES, step, n, start))
            reads = model(*(x[n : n + 1] for x in batch[:2]), batch.queries[n : n + 1, chunk], features)
            losses[n, chunk] = retrieval_loss(reads, batch.targets[n : n + 1, chunk])
    return losses


PROTOCOLS: dict[str, EvaluationProtocol] = {"text": AS_WRITTEN, "published": AS_PUBLISHED}
