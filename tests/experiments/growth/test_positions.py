"""Language models by position: which records count, and what their memories are called."""

import math
from dataclasses import replace

import pytest

from fastweights.experiments.growth.positions import Positions, by_model, positions
from fastweights.experiments.language_models.presets import PRESETS, for_text
from fastweights.runs.record import Record
from fastweights.training.run import Run

MEASURED = {"edges": [0, 300, 1000], "carried": [math.log(400), math.log(600)], "reset": [math.log(400), math.log(500)]}


def described(name: str, **training: object) -> Run:
    run = for_text(PRESETS[f"cpu-{name}"], 33_278, "digest")
    return replace(run, training=replace(run.training, **training))


def found(*runs: Run) -> tuple[Positions, ...]:
    return positions({run: Record({}, {"positions": MEASURED}, {}, {}) for run in runs})


def test_perplexities_and_how_much_worse_a_carried_memory_is() -> None:
    (one,) = found(described("linear-delta-nopos"))
    assert one.carried == pytest.approx((400, 600))
    assert one.reset == pytest.approx((400, 500))
    assert one.drift == pytest.approx(0.2)
    assert (one.memory, one.carried_in_training, one.encoded) == ("delta-sum", False, False)


@pytest.mark.parametrize(
    ("name", "label", "carried"),
    [
        ("linear-delta-nopos", "delta, sum (the paper), ELU+1", False),
        ("dpfp-delta", "delta, sum (the paper), DPFP-1, with positions", False),
        ("linear-delta-nopos-carried", "delta, sum (the paper), ELU+1", True),
        ("linear-delta-nopos-carried-resets", "delta, sum (the paper), ELU+1, reset at random", True),
        ("linear-delta-nopos-carried-columns", "delta, sum (the paper), ELU+1, reset every 8 segments", True),
        ("linear-delta-nopos-carried-rewritten", "delta, sum (the paper), ELU+1, 8 segments rewritten", True),
        ("linear-sum-nopos-carried", "sum rule, attention, ELU+1", True),
        ("linear-sum-nopos-carried-published", "sum rule, attention, ELU+1, published gradient", True),
    ],
)
def test_models_that_differ_have_labels_that_differ(name: str, label: str, carried: bool) -> None:
    (one,) = found(described(name))
    assert (one.label, one.carried_in_training, one.encoded) == (label, carried, "nopos" not in name)


def test_seeds_count_and_changed_runs_other_texts_and_softmax_do_not() -> None:
    seeds = described("linear-delta-nopos"), described("linear-delta-nopos", seed=1)
    changed = described("linear-delta-nopos", precision="bfloat16")
    other = for_text(PRESETS["cpu-long-linear-delta-nopos"], 51_322, "digest")
    assert [len(models) for models in by_model(found(*seeds, changed, other, described("transformer"))).values()] == [2]
