"""Figures of a recording: lines are the numbers that were recorded."""

import pytest
import torch
from torch import nn

from fastweights import CentredL2, FastWeightAttention, record
from fastweights.reporting.traces import draw_traces, layer_label, shade

pytestmark = pytest.mark.usefixtures("one_thread")


def test_lines_are_what_was_recorded() -> None:
    torch.manual_seed(0)
    model = nn.ModuleList([FastWeightAttention(8, 2) for _ in range(2)])
    mask = torch.ones(3, 20, dtype=torch.bool)
    mask[0, 15:] = False
    with record(model, spectra_every=5) as seen:
        for layer in model:
            layer(torch.randn(3, 20, 8), mask=mask)
    occupancy, criteria = draw_traces(seen)
    ranks, sizes = (axes.get_lines() for axes in occupancy.figure.axes)
    assert [line.get_label() for line in ranks] == ["layer 0", "layer 1"]
    assert list(ranks[0].get_xdata()) == [5, 10, 15, 20, 20]
    assert list(sizes[1].get_ydata()) == pytest.approx(seen["1"]["weights"].nanmean(dim=(0, 1)).tolist())
    landing = criteria.figure.axes[0].get_lines()[1]
    first = seen["0"]["landing"][:, :, 0].flatten().median().item()
    assert landing.get_ydata()[0] == pytest.approx(first)


def test_no_balance_is_drawn_for_keys_of_either_sign() -> None:
    signed, positive = FastWeightAttention(8, 2, normalisation=CentredL2()), FastWeightAttention(8, 2)
    for model, panels in ((nn.ModuleList([signed]), 1), (nn.ModuleList([signed, positive]), 2)):
        with record(model) as seen:
            for layer in model:
                layer(torch.randn(1, 9, 8))
        figure = draw_traces(seen)[1].figure
        assert len(figure.axes) == panels
        assert len(figure.axes[-1].get_lines()) == 2  # the goal, and the only layer that has the quantity


def test_names_and_shades() -> None:
    assert layer_label("blocks.3.attention") == "layer 3"
    assert layer_label("decoder.2.cross.1") == "decoder.2.cross.1"
    assert layer_label("") == "the layer"
    assert len({shade(number, 8) for number in range(8)}) == 8
    assert shade(0, 1) == shade(0, 5)
