"""The presets: each one a run that JSON gives back, those of the paper measured as the paper does."""

import json

import pytest

from fastweights.evaluation.perplexity import SlidingWindow
from fastweights.experiments.families import codec, preset_named
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.presets import (
    PRESETS,
    SIZES,
    for_text,
    is_unchanged,
    size_of,
    words_of,
)
from fastweights.training.run import Run


def task_of(run: Run) -> LanguageModellingConfig:
    assert isinstance(run.task, LanguageModellingConfig)
    return run.task


def described(name: str) -> Run:
    return for_text(PRESETS[name], words_of(size_of(PRESETS[name])), "digest")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_run_that_json_gives_back(name: str) -> None:
    run = described(name)
    again = codec().from_plain(json.loads(json.dumps(codec().to_plain(run), allow_nan=False)))
    assert again == run
    assert again.preset == run.preset == name
    assert codec().name(again) == codec().name(run)
    assert run.slug == name


def test_presets_are_found_by_name() -> None:
    assert preset_named("cpu-linear-delta")[0] is PRESETS["cpu-linear-delta"]
    with pytest.raises(ValueError, match=r"preset: unknown name 'cpu-liner-delta' .did you mean 'cpu-linear-delta'"):
        preset_named("cpu-liner-delta")


def test_presets_are_different_runs() -> None:
    assert len(set(PRESETS.values())) == len(PRESETS) == 55 * len(SIZES)
    assert len({codec().name(described(name)) for name in PRESETS}) == len(PRESETS)


def test_the_paper_measures_with_stride_one() -> None:
    for name in ("small-transformer", "medium-linear-delta"):
        task = task_of(PRESETS[name])
        assert task.measurement == SlidingWindow(task.segment_length, 1)
    carried = task_of(PRESETS["medium-linear-delta-nopos-carried"])
    assert str(carried.measurement).startswith("memory carried over the whole text")


def test_a_changed_run_is_known_as_such() -> None:
    run = described("cpu-linear-delta")
    assert is_unchanged(run)
    assert not is_unchanged(codec().changed(run, ["training.steps=7"]))
    assert not is_unchanged(for_text(PRESETS["cpu-linear-delta"], 99, "digest"))
    # How it is measured does not change what is trained.
    assert is_unchanged(codec().changed(run, ["test_stride=1"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("segment_length=0", "segment_length: expected at least 1, got 0"),
        ("training.segment_length=0", "segment_length: expected at least 1, got 0"),
        ("carry_stat=true", "unknown field 'carry_stat' .did you mean 'carry_state'"),
    ],
)
def test_a_mistake_is_named(change: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        codec().changed(PRESETS["cpu-linear-delta"], [change])


def test_carried_segments_cannot_be_shuffled() -> None:
    with pytest.raises(ValueError, match="shuffle: with carry_state each segment has to continue the one before"):
        codec().changed(PRESETS["cpu-linear-delta-nopos-carried"], ["shuffle=true"])
