"""What carrying a memory on does to a language model, drawn and in numbers."""

import pytest

from fastweights.experiments.growth.drift import drift_figure, is_drawn, language_model_table
from fastweights.experiments.growth.positions import Positions


def positions(memory: str, drift: float, carried: bool = False, feature_map: str = "ELU+1") -> Positions:
    perplexities = (400.0, 500.0 * (1 + drift)), (400.0, 500.0)
    name = f"cpu-{memory}-{feature_map}-{carried}"
    return Positions(name, memory, memory, carried, (0, 300, 1000), *perplexities, feature_map)


def test_models_stand_once_with_the_mean_over_seeds() -> None:
    seeds = positions("delta-sum", 0.2), positions("delta-l2", -0.1, carried=True), positions("delta-sum", 0.4)
    assert language_model_table(seeds).rows == (
        ("delta-sum", "segments", "400.0 / 400.0", "650.0 / 500.0", "+30.0 ± 14.1 %", "2"),
        ("delta-l2", "carried on", "400.0 / 400.0", "450.0 / 500.0", "-10.0 %", "1"),
    )


def test_ratios_are_means_over_seeds_in_a_panel_for_each_map() -> None:
    models = (
        positions("delta-sum", 0.2),
        positions("delta-sum", 0.4),
        positions("delta-l2", 0.1, feature_map="DPFP-1"),
        positions("delta-l2", 9.0, carried=True),
    )
    assert [is_drawn(one) for one in models] == [True, True, True, False]
    panels = drift_figure(models).figure.axes
    assert [axes.get_title(loc="left") or axes.get_title() for axes in panels] == ["ELU+1", "DPFP-1"]
    (_, paper), (_, other) = (axes.get_lines() for axes in panels)
    assert paper.get_ydata() == pytest.approx([1.0, 1.3])
    assert paper.get_xdata() == pytest.approx([300**0.5, (300 * 1000) ** 0.5])
    assert other.get_ydata() == pytest.approx([1.0, 1.1])
