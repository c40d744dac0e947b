"""Losses by position: in a segment that starts empty, and after 100, 1,000, … 100,000 tokens of a text."""

import bisect
from itertools import pairwise

import torch
from torch import Tensor

from fastweights.data.text.cache import TokenArray
from fastweights.evaluation.perplexity import Context, IndependentSegments, Piece, evaluate
from fastweights.models.predictor import Predictor

EDGES = (0, 300, 1000, 3000, 10_000, 30_000, 100_000)
SEGMENT_EDGES = (0, 4, 16, 64, 128)
"""Where the buckets of a segment begin."""


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


def losses_in_segments(
    model: Predictor, tokens: TokenArray, length: int, device: torch.device | str = "cpu"
) -> tuple[tuple[int, ...], list[float]]:
    """The mean loss of the tokens of independent segments by their position: the edges of the buckets, and the losses.

    The first tokens of a segment have next to no context, the last ones all of it.
    """
    edges = (*(edge for edge in SEGMENT_EDGES if edge < length), length)
    sums, counts = torch.zeros(length, dtype=torch.float64), torch.zeros(length, dtype=torch.float64)

    def add(piece: Piece, losses: Tensor) -> None:
        sums[: piece.scored] += losses.double().cpu().sum(dim=0)
        counts[: piece.scored] += len(losses)

    evaluate(model, tokens, IndependentSegments(length), device=device, on_losses=add)
    return edges, [float(sums[start:end].sum() / counts[start:end].sum()) for start, end in pairwise(edges)]
