"""Every rule × map × normalisation × backend agrees with the paper's equations in float64, gradients included."""

from zlib import crc32

import pytest
import torch
from hypothesis import Phase, given, seed, settings
from torch import Tensor

from combinations import INTERPRETED, Combination, combinations, examples, usable_backends
from equations import constant_divisors, sizes_of_terms
from pairwise import pairs_first
from random_problems import Case, Inputs, cases, draw_inputs, relative_error, run_equations, run_library

pytestmark = pytest.mark.usefixtures("one_thread")

# Largest relative error in the Frobenius norm: of reads, final weights and normaliser; of all gradients.
TOLERANCES = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (2e-6, 1e-5),
    # Gradients through a map that itself rounds to bfloat16 have no such bound; test_scan.py asks for the operator's.
    torch.bfloat16: (1e-2, float("inf")),
}
COMBINATIONS = pairs_first(list(combinations()), lambda combination: combination.options)
EXAMPLES = 15
"""Of each combination."""


def parts_of(combination: Combination, inputs: Inputs, projection: Tensor | None, name: str) -> list[Tensor]:
    """One of the parts of a gradient that cancel, in several directions: in a single one it may vanish by chance."""
    with constant_divisors():
        return [run_equations(combination, inputs, projection, draw).gradients[name] for draw in range(1, 5)]


def assert_agrees(combination: Combination, case: Case) -> None:
    inputs, projection = draw_inputs(combination, case)
    expected = run_equations(combination, inputs, projection)
    tolerance, gradient_tolerance = TOLERANCES[case.dtype]
    for backend in usable_backends(case.dtype, combination.rule):
        actual = run_library(combination, inputs, projection, backend)
        for name in ("reads", "weights", "normaliser"):
            x, y = getattr(actual, name), getattr(expected, name)
            assert (x is None) == (y is None)
            if y is None:
                continue
            error = relative_error(x, y)
            if name == "reads" and error > tolerance:
                with sizes_of_terms():
                    error = relative_error(x, y, run_equations(combination, inputs, projection).reads)
            assert error <= tolerance, (backend, name)
        for name, gradient in expected.gradients.items():
            error = relative_error(actual.gradients[name], gradient)
            if error > gradient_tolerance:
                error = relative_error(
                    actual.gradients[name], gradient, *parts_of(combination, inputs, projection, name)
                )
            assert error <= gradient_tolerance, (backend, name)


@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_the_library_agrees_with_the_equations(combination: Combination) -> None:
    # A seed for each combination: otherwise all of them would draw the same few cases.
    @seed(crc32(str(combination).encode()))
    @settings(max_examples=examples(EXAMPLES), phases=[Phase.generate])
    @given(cases(combination.key_dims))
    def agrees(case: Case) -> None:
        assert_agrees(combination, case)

    agrees()


@pytest.mark.skipif(INTERPRETED, reason="few problems are drawn where each is interpreted too")
def test_enough_cases_are_drawn() -> None:
    """Of the ordinary run: problems with equations of their own, each by every backend that serves it."""
    ordinary = [x for x in COMBINATIONS if isinstance(x, Combination)]
    assert EXAMPLES * len(ordinary) >= 3000
    for kind in range(4):
        assert {choice.options[kind] for choice in ordinary} == {choice.options[kind] for choice in combinations()}
