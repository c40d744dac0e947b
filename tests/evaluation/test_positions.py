"""Perplexity by position: buckets hold exactly the losses of their tokens."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fastweights.evaluation.perplexity import CarriedState, SlidingWindow
from fastweights.evaluation.positions import edges_up_to, losses_by_position, losses_in_segments


class Counter(nn.Module):
    """A model whose loss of a token is its number: the stream 0, 1, 2, … has the loss t at position t."""

    def forward(
        self, tokens: Tensor, states: list[int] | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, list]:
        return tokens.float(), [0]

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return targets.float()


def test_edges_end_where_the_text_does() -> None:
    assert edges_up_to(2500) == (0, 300, 1000, 2500)
    assert edges_up_to(1_000_000) == (0, 300, 1000, 3000, 10_000, 30_000, 100_000)
    assert edges_up_to(7) == (0, 7)


@pytest.mark.parametrize(
    "context", [CarriedState(7), CarriedState(7, 7), CarriedState(5, 20, batch_size=3), SlidingWindow(9, 4)], ids=str
)
def test_every_token_is_in_its_bucket(context: CarriedState) -> None:
    tokens, edges = np.arange(101, dtype=np.uint32), (0, 3, 10, 64, 100)
    found = losses_by_position(Counter(), tokens, context, edges)
    # The loss at position t, counted from 0, is that of token t + 1.
    expected = [np.arange(a + 1, b + 1).mean() for a, b in pairwise(edges)]
    assert found == pytest.approx(expected)
    assert torch.tensor(found).isfinite().all()


def test_only_as_much_is_read_as_the_edges_say() -> None:
    tokens = np.arange(1000, dtype=np.uint32)
    assert losses_by_position(Counter(), tokens, CarriedState(8), (0, 2, 4)) == pytest.approx([1.5, 3.5])


def test_positions_in_a_segment_are_averaged_over_all_segments() -> None:
    # Losses 1 … 46 in segments of 20: the last segment has six tokens, and reaches no further than the second bucket.
    edges, losses = losses_in_segments(Counter(), np.arange(47, dtype=np.uint32), 20)
    assert edges == (0, 4, 16, 20)
    numbers = np.arange(1, 47)
    expected = [numbers[((numbers - 1) % 20 >= a) & ((numbers - 1) % 20 < b)].mean() for a, b in pairwise(edges)]
    assert losses == pytest.approx(expected)
