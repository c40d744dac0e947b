"""The runs of the paper's synthetic experiments, as specified."""

import pytest

from fastweights.experiments.retrieval.config import RetrievalConfig
from fastweights.experiments.retrieval.evaluation import EvaluationProtocol
from fastweights.experiments.retrieval.presets import preset
from fastweights.experiments.retrieval.reads import FastWeightRead, SoftmaxRead
from fastweights.feature_maps import DPFP, Tanh
from fastweights.memory import AttentionNormalisation, NoNormalisation, SumNormalisation
from fastweights.training.config import TrainingConfig
from fastweights.training.run import Run
from fastweights.training.stopping import Stopping
from fastweights.update_rules import DeltaRule, FastWeightMemoryRule, SumRule


def task_of(run: Run) -> RetrievalConfig:
    assert isinstance(run.task, RetrievalConfig)
    return run.task


def test_presets_follow_the_specification() -> None:
    assert task_of(preset("capacity", "dpfp2", "sum", 100, 7)).attention == FastWeightRead(
        DPFP(2), SumRule(), NoNormalisation(), AttentionNormalisation(), epsilon=1e-6
    )
    assert task_of(preset("overwriting", "dpfp1", "delta", 20)).attention == FastWeightRead(
        DPFP(1), DeltaRule(), SumNormalisation(), None
    )
    run = preset("overwriting", "dpfp1", "delta", 20)
    assert task_of(run).key_dim == 64
    assert run.training == TrainingConfig(
        steps=100_000,
        batch_size=32,
        learning_rate=1e-3,
        schedule="constant",
        warmup_steps=0,
        clip_norm=None,
        log_every=None,
        evaluate_every=100,
        seed=1,
    )
    assert run.stopping == Stopping(target=0.001, patience=11)
    assert task_of(run).protocol == EvaluationProtocol(20, "2S", None, "queries", False)
    schlag = preset("overwriting", "tanh", "schlag2021", 20)
    assert (schlag.training.learning_rate, schlag.training.batch_size) == (1e-4, 128)
    assert task_of(schlag).attention == FastWeightRead(Tanh(), FastWeightMemoryRule(layer_norm=True), NoNormalisation())
    with_dpfp = preset("overwriting", "dpfp1", "schlag2021-nolayernorm", 20)
    assert (with_dpfp.training.learning_rate, with_dpfp.training.batch_size) == (1e-3, 32)
    read = task_of(with_dpfp).attention
    assert isinstance(read, FastWeightRead)
    assert read.update_rule == FastWeightMemoryRule(layer_norm=False)
    assert task_of(preset("capacity", "softmax", None, 20)).attention == SoftmaxRead()


def test_the_learning_rate_is_constant() -> None:
    rates = preset("capacity", "dpfp1", "sum", 20).training.rates
    assert {rates(step) for step in (1, 2, 50_000, 100_000)} == {1e-3}


def test_each_setting_has_its_usual_rule() -> None:
    assert preset("capacity", "dpfp1") == preset("capacity", "dpfp1", "sum", 20)
    assert preset("overwriting", "dpfp1") == preset("overwriting", "dpfp1", "delta", 20)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"model: unknown name 'lstm'.*; possible: softmax, elu, "):
        preset("capacity", "lstm", "sum", 20)
    with pytest.raises(ValueError, match=r"rule: unknown name 'add'.*; possible: sum, delta, "):
        preset("capacity", "elu", "add", 20)
