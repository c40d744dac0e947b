"""The demo's pictures: drawn here, quick, and what is said about them is so."""

from fastweights.experiments.demo import images
from fastweights.experiments.images.images import drawing


def test_keys_of_length_one_keep_the_pictures() -> None:
    errors = {row[0]: [float(cell) for cell in row[1:]] for row in images.rows()}
    assert len(errors) == 4
    assert max(errors["delta, L2"]) < 0.4
    assert max(errors["delta, centred L2"]) < 0.2
    assert min(errors["delta, sum-normalised (the paper's)"]) > 0.9


def test_the_figure_shows_what_was_stored_and_retrieved() -> None:
    assert len(drawing(images.measured()).figure.axes) == 8 * 5
