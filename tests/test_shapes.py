"""The shapes written in the annotations are really checked while the tests run."""

import pytest
import torch
from jaxtyping import TypeCheckError

from fastweights import DPFP, DeltaRule, SumNormalisation


def test_a_wrong_shape_is_noticed() -> None:
    gates = {"beta": torch.ones(2, 3, 5)}
    with pytest.raises(TypeCheckError, match="gates"):
        DeltaRule().coefficients(torch.ones(2, 3, 4, 8), gates)


def test_a_wrong_dtype_is_noticed() -> None:
    with pytest.raises(TypeCheckError):
        SumNormalisation()(torch.ones(2, 3, dtype=torch.int64))


@pytest.mark.usefixtures("without_shape_checks")
def test_the_library_speaks_for_itself_where_the_checks_are_off() -> None:
    assert DeltaRule().coefficients(torch.ones(2, 3, 4, 8), {"beta": torch.ones(2, 3, 5)}).erase.shape == (2, 3, 5)
    with pytest.raises(ValueError, match="nu must be an integer"):
        DPFP(nu="two")  # type: ignore[arg-type]
