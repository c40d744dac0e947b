"""Capacity in a browser: the slider goes through d_dot, and the loss is the library's to 1e-6."""

from collections.abc import Callable
from typing import Any

import pytest

from fastweights.playground.capacity import feature_dim, hold
from fastweights.playground.choices import MemoryChoice

pytestmark = pytest.mark.slow


def test_the_slider_goes_through_the_number_of_features(open_page: Callable[..., Any], address: str) -> None:
    page = open_page(address)
    page.get_by_role("tab", name="Capacity").click()
    choices = [MemoryChoice(rule, "dpfp-1", "l2") for rule in ("sum", "delta")]
    features = feature_dim(choices[0])
    for count in (features - 1, features, features + 1, 2 * features):
        number = page.locator("#fw-stored input[type=number]")
        number.fill(str(count))
        number.press("Enter")
        for place, choice in enumerate(choices):
            page.wait_for_function(
                """([place, loss]) => {
                    const shown = document.querySelector(`#fw-capacity [data-memory="${place}"] [data-name="loss"]`);
                    return Math.abs(Number(shown.dataset.value) - loss) <= 1e-6;
                }""",
                arg=[place, hold(choice, count, 1.0).loss],
            )
    assert page.locator("#fw-capacity >> text=rank bound, d_dot = 16").count() == 1
