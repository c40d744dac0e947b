"""Keys that are as similar as one likes."""

import pytest
import torch

from fastweights.playground.keys import COLOURS, colour_keys


@pytest.mark.parametrize("similarity", [0.0, 0.25, 0.9, 1.0])
def test_all_pairs_have_the_cosine_that_was_asked_for(similarity: float) -> None:
    keys = colour_keys(similarity)[0, 0]
    cosines = keys @ keys.T
    count = len(COLOURS)
    expected = torch.full((count, count), similarity, dtype=torch.float64)
    expected.fill_diagonal_(1.0)
    torch.testing.assert_close(cosines, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("similarity", [-0.1, 1.1, float("nan")])
def test_there_is_no_other_similarity(similarity: float) -> None:
    with pytest.raises(ValueError, match="similarity: expected a number from 0 to 1"):
        colour_keys(similarity)
