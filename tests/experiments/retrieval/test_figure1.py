"""Figure 1: the surfaces are those of the feature map, and nothing is trained for them."""

import numpy as np

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import coverage_of
from fastweights.experiments.retrieval import figure1
from shown_figures import drawings_of


def test_there_is_nothing_to_run() -> None:
    assert figure1.runs(ReproduceOptions()) == []
    assert coverage_of(figure1, {}) == ([], 0, 0)
    (drawing,) = drawings_of(figure1, {})
    assert drawing.name == "figure1"


def test_each_component_rises_in_one_quarter_of_the_plane() -> None:
    line, mapped = figure1.features(5)
    assert line.tolist() == [-1, -0.5, 0, 0.5, 1]
    x, y = np.meshgrid(line, line)
    signs = ((1, 1), (-1, 1), (1, -1), (-1, -1))
    for component, (right, up) in enumerate(signs):
        expected = np.maximum(right * x, 0) * np.maximum(up * y, 0)
        np.testing.assert_allclose(mapped[..., component], expected, atol=1e-15)
