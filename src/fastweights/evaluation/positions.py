"""Perplexity by position: whether a memory that is carried on still helps after 100, 1,000, … 100,000 tokens."""

import bisect

import torch
from torch import Tensor

from fastweights.data.text.cache import TokenArray
from fastweights.evaluation.perplexity import Context, Piece, evaluate
from fastweights.models.predictor import Predictor

EDGES = (0, 300, 1000, 3000, 10_000, 30_000, 100_000)


def edges_up_to(tokens: int) -> tuple[int, ...]:
    """The edges of the buckets of a text: those that it reaches, and its own end."""
    end = min(tokens, EDGES[-1])
    return (*(edge for edge in EDGES if edge < end), end)


def losses_by_position(
    model: Predictor, tokens: TokenArray, context: Context, edges: tuple[int, ...], device: torch.device | str = "cpu"
) -> list[float]:
    """The mean loss of the tokens from each edge to the next, counted from the start of the stream."""
    sums, counts = [0.0] * (len(edges) - 1), [0] * (len(edges) - 1)

    def add(piece: Piece, losses: Tensor) -> None:
        for row, start in zip(losses.double().cpu(), piece.starts, strict=True):
            first = start + piece.length - piece.scored
            for bucket in range(max(bisect.bisect_right(edges, first) - 1, 0), len(sums)):
                part = row[max(edges[bucket] - first, 0) : max(edges[bucket + 1] - first, 0)]
                sums[bucket] += float(part.sum())
                counts[bucket] += len(part)

    evaluate(model, tokens[: edges[-1] + 1], context, device=device, on_losses=add)
    return [total / count if count else float("nan") for total, count in zip(sums, counts, strict=True)]
