"""BLEU by corpus and model from records: seeds together, changed runs left out."""

import pytest

from fastweights.experiments.translation.scores import PAPER, Scores, compare, scores
from translation_records import CORPUS, record, run_of


def test_seeds_of_a_model_stand_together_in_order() -> None:
    runs = {run_of("dpfp2", seed): record(wrong) for seed, wrong in ((3, 5), (1, 3), (2, 4))}
    found = scores(runs).get(CORPUS, "dpfp2")
    assert found is not None
    one, two, three = (record(wrong).result["scores"]["test_a"]["bleu"] for wrong in (3, 4, 5))
    assert found.test == (one, two, three)
    assert len(found.test_statistics) == 3


def test_the_performer_is_named_by_its_features() -> None:
    assert list(scores({run_of("performer-m64", 1): record(3)}).found[CORPUS]) == ["performer-x4"]


def test_changed_and_unmeasured_runs_are_left_out() -> None:
    assert scores({run_of("dpfp2", 1, "training.steps=3"): record(3)}).found == {}
    assert scores({run_of("dpfp2", 1): record(3, measured=False)}).found == {}


def test_runs_with_more_updates_stand_apart_whatever_they_were_called() -> None:
    longer = run_of("standard", 1, "training.steps=8000", "model.dropout=0.2")
    assert longer.preset == "translation-cpu-standard"
    found = scores({longer: record(3), run_of("standard", 1): record(4)}).found
    assert {corpus: list(models) for corpus, models in found.items()} == {
        "pairs en-de, 8,000 updates": ["standard"],
        CORPUS: ["standard"],
    }


def test_models_are_compared_over_all_seeds() -> None:
    runs = {run_of("dpfp2", seed): record(2) for seed in (1, 2)} | {run_of("linear", 1): record(9)}
    found = scores(runs)
    ((corpus, (better, worse)),) = found.with_all("dpfp2", "linear")
    assert corpus == CORPUS
    comparison = compare(better, worse, "test")
    assert comparison is not None
    assert comparison.difference == pytest.approx(better.test[0] - worse.test[0], rel=1e-4)
    assert comparison.decided()
    assert compare(PAPER.found["WMT14 en-de"]["dpfp2"], worse, "test") is None
    assert list(found.with_all("dpfp2", "standard")) == []


def test_splits_have_names() -> None:
    score = Scores((1.0,), (2.0,))
    assert (score.of("valid"), score.of("test")) == ((1.0,), (2.0,))
