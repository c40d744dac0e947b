"""A run as a value: presets as specified, JSON and back, names, and errors that say what is possible."""

import json
from dataclasses import replace

import pytest

from fastweights.experiments.retrieval.config import MODELS, RULES, RetrievalRun, preset
from fastweights.experiments.retrieval.evaluation import PUBLISHED, TEXT, EvaluationProtocol
from fastweights.experiments.retrieval.model import FastWeightRead, SoftmaxRead
from fastweights.feature_maps import DPFP, Tanh
from fastweights.memory import L2Normalisation, NoNormalisation, SumNormalisation
from fastweights.update_rules import DeltaRule, FastWeightMemoryRule, NormalisedDeltaRule, SumRule

PRESETS = [
    preset(setting, model, rule, 40, protocol=protocol)
    for setting in ("capacity", "overwriting")
    for model in MODELS
    for rule in RULES
    for protocol in (TEXT, PUBLISHED)
]


@pytest.mark.parametrize("run", PRESETS, ids=lambda run: run.slug)
def test_json_and_back(run: RetrievalRun) -> None:
    plain = json.loads(json.dumps(run.to_dict(), allow_nan=False))
    again = RetrievalRun.from_dict(plain)
    assert again == run
    assert hash(again) == hash(run)
    assert (again.digest, again.slug) == (run.digest, run.slug)


def test_different_runs_have_different_names() -> None:
    runs = set(PRESETS)
    assert len({run.digest for run in runs}) == len(runs)
    assert len({run.slug for run in runs}) == len(runs)


def test_every_field_counts_in_the_digest() -> None:
    run = preset("capacity", "dpfp1", "delta", 40)
    changes = {
        "setting": "overwriting",
        "num_keys": 41,
        "attention": FastWeightRead(DPFP(1), DeltaRule(), L2Normalisation()),
        "key_dim": 32,
        "learning_rate": 2e-3,
        "batch_size": 16,
        "seed": 2,
        "evaluate_every": 50,
        "patience": 5,
        "stop_loss": 0.01,
        "max_steps": 10,
        "protocol": PUBLISHED,
    }
    assert changes.keys() == run.to_dict().keys()
    digests = {replace(run, **{name: value}).digest for name, value in changes.items()}  # type: ignore[arg-type]
    assert len(digests | {run.digest}) == len(changes) + 1


def test_the_digest_of_a_run_stays_the_same() -> None:
    # Records are found by it: a change makes every record of the past a stranger.
    assert preset("capacity", "dpfp1", "sum", 100).digest == "84b3fa42dcab"


def test_presets_follow_the_specification() -> None:
    assert preset("capacity", "dpfp2", "sum", 100, 7).attention == FastWeightRead(
        DPFP(2), SumRule(), NoNormalisation(), attention_normalisation=True, epsilon=1e-6
    )
    assert preset("overwriting", "dpfp1", "delta", 20).attention == FastWeightRead(
        DPFP(1), DeltaRule(), SumNormalisation(), attention_normalisation=False
    )
    run = preset("overwriting", "dpfp1", "delta", 20)
    assert (run.key_dim, run.learning_rate, run.batch_size, run.seed) == (64, 1e-3, 32, 1)
    assert (run.evaluate_every, run.patience, run.stop_loss, run.max_steps) == (100, 11, 0.001, 100_000)
    assert run.protocol == EvaluationProtocol(20, "2S", None, "queries", False)
    schlag = preset("overwriting", "tanh", "schlag2021", 20)
    assert (schlag.learning_rate, schlag.batch_size) == (1e-4, 128)
    assert schlag.attention == FastWeightRead(Tanh(), FastWeightMemoryRule(layer_norm=True), NoNormalisation())
    with_dpfp = preset("overwriting", "dpfp1", "schlag2021-nolayernorm", 20)
    assert (with_dpfp.learning_rate, with_dpfp.batch_size) == (1e-3, 32)
    assert with_dpfp.attention.update_rule == FastWeightMemoryRule(layer_norm=False)  # type: ignore[attr-defined]
    assert preset("capacity", "softmax", None, 20).attention == SoftmaxRead()


@pytest.mark.parametrize(
    ("run", "slug"),
    [
        (preset("capacity", "dpfp1", "sum", 100), "capacity-dpfp1-sum-S100-seed1"),
        (preset("capacity", "softmax", None, 20, seed=3), "capacity-softmax-S20-seed3"),
        (preset("overwriting", "tanh", "schlag2021", 40), "overwriting-tanh-schlag2021-S40-seed1"),
        (
            preset("capacity", "favor64-stabilised", "sum", 60, protocol=PUBLISHED),
            "capacity-favor64-stabilised-sum-S60-published-seed1",
        ),
        (
            RetrievalRun("capacity", 9, FastWeightRead(DPFP(7), DeltaRule(), L2Normalisation()), key_dim=16),
            "capacity-dpfp7-delta-l2-S9-d16-seed1",
        ),
        (
            RetrievalRun("capacity", 9, FastWeightRead(DPFP(1), NormalisedDeltaRule(), attention_normalisation=True)),
            "capacity-dpfp1-normalised-delta-sum-attention-S9-seed1",
        ),
        (
            RetrievalRun("capacity", 9, SoftmaxRead(), protocol=EvaluationProtocol(sequences=3)),
            "capacity-softmax-S9-custom-seed1",
        ),
    ],
)
def test_readable_names(run: RetrievalRun, slug: str) -> None:
    assert run.slug == slug


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nunm_keys": 3}, "unknown field 'nunm_keys'.*did you mean 'num_keys'.*possible: setting, num_keys"),
        ({"num_keys": 1}, "num_keys: must be an integer of at least 2, got 1"),
        ({"num_keys": "20"}, "num_keys: expected int, got '20'"),
        ({"setting": "other"}, "unknown value 'other'; possible: capacity, overwriting"),
        ({"attention": {"name": "linear"}}, "attention: unknown name 'linear'; possible: softmax, fast-weights"),
        ({"attention": {"name": "fast-weights", "feature_map": "dpfpp"}}, "did you mean 'dpfp'"),
        (
            {"attention": {"name": "fast-weights", "feature_map": {"name": "dpfp", "nu": 0}}},
            "nu must be an integer of at least 1, got 0",
        ),
        (
            {"attention": {"name": "fast-weights", "feature_map": {"name": "dpfp", "nu": 200}}},
            "nu must be in 1 ... 2",
        ),
        ({"protocol": {"length": "3S"}}, "protocol.length: unknown value '3S'.*; possible: 2S, S"),
        ({"batch_size": 0}, "batch_size: must be an integer of at least 1, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate: must be a finite number"),
    ],
)
def test_bad_fields_are_named_with_what_is_possible(change: dict[str, object], message: str) -> None:
    plain = {**preset("capacity", "dpfp1", "sum", 20).to_dict(), **change}
    with pytest.raises(ValueError, match=message):
        RetrievalRun.from_dict(plain)


@pytest.mark.parametrize("missing", ["setting", "num_keys", "attention"])
def test_a_missing_field_is_named(missing: str) -> None:
    plain = preset("capacity", "dpfp1", "sum", 20).to_dict()
    del plain[missing]
    with pytest.raises(ValueError, match=missing):
        RetrievalRun.from_dict(plain)


def test_unknown_names_of_presets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"model: must be one of softmax, elu, .*, got 'lstm'"):
        preset("capacity", "lstm", "sum", 20)
    with pytest.raises(ValueError, match=r"rule: must be one of sum, delta, .*, got 'add'"):
        preset("capacity", "elu", "add", 20)
