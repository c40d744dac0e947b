"""Trials beside records: verdicts follow from means over seeds."""

import math
from dataclasses import replace

from fastweights.experiments.images.presets import runs_by_model
from fastweights.experiments.language_models.presets import PRESETS, for_text
from fastweights.experiments.paper import trials
from fastweights.experiments.trials import SHOWN, TRIALS, Kind, trial_rows
from fastweights.runs.record import Record
from fastweights.training.run import Run


def test_verdicts() -> None:
    kind = Kind("anything", "{:.1f}", 5.0, lambda records, name: ())
    assert kind.verdict(70.0, ()) == "not run yet"
    assert kind.verdict(70.0, (66.0, 70.0, 66.0)) == "as in the trial"
    assert kind.verdict(70.0, (60.0, 64.0, 63.0)) == "lower"
    assert kind.verdict(70.0, (90.0,)) == "higher, so far"
    share = replace(kind, near=0.02, absolute=False)
    assert share.verdict(200.0, (203.9,) * 3) == "as in the trial"
    assert share.verdict(200.0, (204.1,) * 3) == "higher"


def test_every_trial_has_its_row() -> None:
    rows = trial_rows({})
    assert len(rows) == sum(len(numbers) for _, numbers in TRIALS)
    assert {row[-1] for row in rows} == {"not run yet"}
    assert {name for _, numbers in TRIALS for name in numbers} == set(SHOWN)
    assert trials({}).rows == rows


def test_rows_hold_what_records_say() -> None:
    (run,) = [run for (model,), run in runs_by_model() if model == "delta-l2" and run.training.seed == 1]
    answers = {"x1": {"all": 0.9}, "x4": {"all": 0.5}}
    language_model = for_text(PRESETS["cpu-linear-delta-nopos"], 33_278, "digest")
    changed = replace(language_model, training=replace(language_model.training, precision="bfloat16"))
    records = {
        run: Record({}, {"accuracies": answers}, {}, {}),
        language_model: Record({}, {"writes": {"landing": 0.12, "balance": 1.0}}, {}, {}),
        changed: Record({}, {"writes": {"landing": 0.9, "balance": 1.0}}, {}, {}),
    }
    rows = {row[:2]: row[3:] for row in trial_rows(records)}
    assert rows["labels that change, %", "delta, L2"] == ("90.0", "1", "as in the trial, so far")
    assert rows["labels that change, 4 × as long, %", "delta, L2"] == ("50.0", "1", "lower, so far")
    λ = rows["λ of a language model's writes after 128 words, %", "delta, sum (the paper)"]
    assert λ == ("12", "1", "as in the trial, so far")


def test_perplexities_are_compared_with_those_of_the_same_seed() -> None:
    def record(name: str, seed: int, perplexity: float) -> tuple[Run, Record]:
        run = for_text(PRESETS[f"cpu-{name}"], 33_278, "digest")
        loss = {"loss": math.log(perplexity)}
        return replace(run, training=replace(run.training, seed=seed)), Record(
            {}, {"valid": loss, "test": loss}, {}, {}
        )

    records = dict(
        [
            record("linear-delta-nopos", 1, 200.0),
            record("linear-delta-nopos", 2, 100.0),
            record("linear-delta-l2-nopos", 2, 94.0),
            record("linear-delta-centred-nopos", 3, 50.0),
        ]
    )
    rows = {row[1]: row[3:] for row in trial_rows(records) if row[0].startswith("valid perplexity against")}
    assert rows["delta, L2"] == ("-6.0", "1", "as in the trial, so far")
    assert rows["delta, centred L2"] == ("–", "0", "not run yet")
