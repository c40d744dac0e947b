"""Readable names of models and runs, those of the figures and others."""

from dataclasses import replace

import pytest

from fastweights.experiments.retrieval.config import RetrievalConfig
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED, EvaluationProtocol
from fastweights.experiments.retrieval.names import MODELS, RULES, model_and_rule
from fastweights.experiments.retrieval.presets import preset, training
from fastweights.experiments.retrieval.reads import FastWeightRead, SoftmaxRead
from fastweights.feature_maps import DPFP
from fastweights.memory import AttentionNormalisation, L2Normalisation, SumNormalisation
from fastweights.training.run import Run
from fastweights.update_rules import DeltaRule, NormalisedDeltaRule

NORMALISED = FastWeightRead(DPFP(1), NormalisedDeltaRule(), SumNormalisation(), AttentionNormalisation())


@pytest.mark.parametrize(
    ("run", "slug"),
    [
        (preset("capacity", "dpfp1", "sum", 100), "capacity-dpfp1-sum-S100-seed1"),
        (preset("capacity", "softmax", None, 20, seed=3), "capacity-softmax-S20-seed3"),
        (preset("overwriting", "tanh", "schlag2021", 40), "overwriting-tanh-schlag2021-S40-seed1"),
        (
            preset("capacity", "favor64-stabilised", "sum", 60, protocol=AS_PUBLISHED),
            "capacity-favor64-stabilised-sum-S60-published-seed1",
        ),
        (
            Run(
                RetrievalConfig("capacity", 9, FastWeightRead(DPFP(7), DeltaRule(), L2Normalisation()), key_dim=16),
                training(1),
            ),
            "capacity-dpfp7-delta-l2-S9-d16-seed1",
        ),
        (
            Run(RetrievalConfig("capacity", 9, NORMALISED), training(1)),
            "capacity-dpfp1-normalised-delta-sum-attention-S9-seed1",
        ),
        (
            Run(
                RetrievalConfig("capacity", 9, SoftmaxRead(), protocol=EvaluationProtocol(sequences=3)),
                training(1),
            ),
            "capacity-softmax-S9-custom-seed1",
        ),
    ],
)
def test_readable_names(run: Run, slug: str) -> None:
    assert run.slug == slug


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("model", [name for name, feature_map in MODELS.items() if feature_map is not None])
def test_models_of_the_figures_are_known_by_their_names(model: str, rule: str) -> None:
    feature_map = MODELS[model]
    assert feature_map is not None
    read = RULES[rule](feature_map)
    assert model_and_rule(read) == (model, rule)
    assert model_and_rule(replace(read, epsilon=1e-3)) is None


def test_softmax_has_no_rule() -> None:
    assert model_and_rule(SoftmaxRead()) == ("softmax", "none")
    assert model_and_rule(FastWeightRead(DPFP(7))) is None
