"""The evaluation protocols, and the floors that no model of a kind can go below."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fastweights.data.retrieval import RetrievalProblem
from fastweights.experiments.families import codec
from fastweights.experiments.retrieval.evaluation import (
    AS_PUBLISHED,
    AS_WRITTEN,
    EvaluationProtocol,
    chunk_weighted_mean,
    evaluate,
)
from fastweights.experiments.retrieval.model import RetrievalModel, retrieval_loss
from fastweights.experiments.retrieval.presets import preset
from fastweights.experiments.retrieval.reads import FastWeightRead
from fastweights.feature_maps import Favor
from fastweights.runs.directory import RunDirectory
from fastweights.training.execute import one_thread_if
from fastweights.training.loop import Trainer
from fastweights.training.run import Run


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Models this small only lose by sharing work."""
    with one_thread_if(True):
        yield


class Averaging(RetrievalModel):
    """The best that can be known without knowing the order of the pairs: the mean of a key's values."""

    def __init__(self, num_keys: int) -> None:
        super().__init__(num_keys, FastWeightRead())

    def forward(self, keys: Tensor, values: Tensor, queries: Tensor, projection: Tensor | None = None) -> Tensor:
        same = (keys[:, None] == queries[:, :, None]).float()
        same = same / same.sum(dim=-1, keepdim=True).clamp(min=1)
        return same @ one_hot(values, self.num_keys).float()


class Perfect(RetrievalModel):
    """The value that a key had last."""

    def __init__(self, num_keys: int) -> None:
        super().__init__(num_keys, FastWeightRead())

    def forward(self, keys: Tensor, values: Tensor, queries: Tensor, projection: Tensor | None = None) -> Tensor:
        same = (keys[:, None] == queries[:, :, None]).int()
        last = keys.shape[1] - 1 - same.flip(-1).argmax(dim=-1)
        return one_hot(values.gather(1, last), self.num_keys).float()


def loss_of(model: RetrievalModel, setting: str, protocol: EvaluationProtocol, step: int = 100) -> float:
    problem = RetrievalProblem(setting, model.num_keys)  # type: ignore[arg-type]
    return evaluate(model, problem, protocol, chunk_size=32, seed=1, step=step)


def trained(run: Run, steps: int, folder: Path) -> RetrievalModel:
    """The model of a run after so many steps."""
    task = run.task.open(run.training, None)
    model = task.build()
    training = replace(run.training, steps=steps, evaluate_every=steps)
    with RunDirectory.claim(folder, {}, {}) as directory:
        Trainer(task, model, training, directory).run()
    assert isinstance(model, RetrievalModel)
    return model.eval()


@pytest.mark.parametrize("protocol", [AS_WRITTEN, AS_PUBLISHED])
@pytest.mark.parametrize("setting", ["capacity", "overwriting"])
def test_a_perfect_model_has_no_loss(setting: str, protocol: EvaluationProtocol) -> None:
    assert loss_of(Perfect(30), setting, protocol) == 0


@pytest.mark.parametrize(
    ("num_keys", "length", "floor"),
    [(20, "S", 0.109), (20, "2S", 0.202), (40, "S", 0.113), (40, "2S", 0.207), (100, "S", 0.113), (100, "2S", 0.209)],
)
def test_order_blind_rules_have_a_floor(num_keys: int, length: str, floor: float) -> None:
    protocol = EvaluationProtocol(sequences=20_000 // num_keys, length=length)  # type: ignore[arg-type]
    assert loss_of(Averaging(num_keys), "overwriting", protocol) == pytest.approx(floor, abs=0.003)


def test_a_rule_that_knows_only_averages_is_order_blind_in_the_capacity_setting_too() -> None:
    assert loss_of(Averaging(20), "capacity", AS_WRITTEN) == 0


@pytest.mark.slow
def test_training_does_not_take_the_sum_rule_below_the_floor(tmp_path: Path) -> None:
    model = trained(preset("overwriting", "dpfp1", "sum", 20), 900, tmp_path)
    many = EvaluationProtocol(sequences=500)
    assert 0.2 < loss_of(model, "overwriting", many) < 0.23


def test_no_memory_holds_more_than_its_rank(tmp_path: Path) -> None:
    run = codec().changed(preset("capacity", "elu", "sum", 12), ["key_dim=8", "learning_rate=3e-3"])
    initial = run.task.open(run.training, None).build()
    bound = (1 - 8 / 12) / 2
    assert loss_of(initial, "capacity", AS_WRITTEN) > 2 * bound
    assert bound <= loss_of(trained(run, 300, tmp_path), "capacity", AS_WRITTEN) < 1.05 * bound


def test_chunks_count_alike_whatever_their_size() -> None:
    # One confused pair among the 8 keys of the last chunk of 200: 0.5 / (8·7) instead of 0.0025.
    losses = torch.zeros(1, 200)
    losses[0, 195:197] = 0.25
    asked = torch.ones(1, 200, dtype=torch.bool)
    assert chunk_weighted_mean(losses, asked, 32) == pytest.approx(0.5 / (8 * 7))
    assert losses.mean().item() == pytest.approx(0.0025)


def test_chunks_leave_out_what_was_not_asked() -> None:
    losses = torch.tensor([[1.0, 2.0, 3.0, 9.0], [4.0, 9.0, 9.0, 9.0]])
    asked = torch.tensor([[True, True, True, False], [True, False, False, False]])
    assert chunk_weighted_mean(losses, asked, 2) == pytest.approx((1.5 + 3 + 4) / 3)


def test_the_published_protocol_is_shorter_asks_for_less_and_weighs_by_chunk() -> None:
    model = RetrievalModel(230, FastWeightRead(), key_dim=4, generator=torch.Generator().manual_seed(1))
    problem = RetrievalProblem("overwriting", 230)
    batch = problem.evaluation(20, 230, 200, seed=1, step=100)
    assert batch.queries.shape[1] < 200
    with torch.no_grad():
        losses = retrieval_loss(model(*batch[:3]), batch.targets)
    means = []
    for row in range(20):
        own = losses[row][batch.query_mask[row]]
        means += [chunk.mean().item() for chunk in own.split(32)]
    assert loss_of(model, "overwriting", AS_PUBLISHED) == pytest.approx(sum(means) / len(means), rel=1e-5)


def test_at_most_200_keys_are_asked_for_as_published() -> None:
    model = RetrievalModel(210, FastWeightRead(), key_dim=4, generator=torch.Generator().manual_seed(1))
    asked = []
    model.register_forward_hook(lambda _, arguments, __: asked.append(arguments[2].shape[1]))
    loss_of(model, "capacity", AS_PUBLISHED)
    loss_of(model, "capacity", AS_WRITTEN)
    assert asked == [200, 210]


def test_random_features_are_fixed_by_the_text_and_redrawn_as_published() -> None:
    model = RetrievalModel(40, FastWeightRead(Favor(8)), key_dim=4, generator=torch.Generator().manual_seed(1))
    drawn: list[Tensor] = []
    model.register_forward_hook(lambda _, arguments, __: drawn.append(arguments[3]))
    for step in (100, 200):
        loss_of(model, "capacity", AS_WRITTEN, step)
    assert len(drawn) == 2
    assert torch.equal(drawn[0], drawn[1])
    drawn.clear()
    first, again = (loss_of(model, "capacity", AS_PUBLISHED) for _ in range(2))
    assert first == again
    assert len(drawn) == 2 * 20 * 2
    assert len({tuple(x.flatten().tolist()) for x in drawn}) == 40


def test_every_evaluation_has_sequences_of_its_own() -> None:
    model = RetrievalModel(10, FastWeightRead(), generator=torch.Generator().manual_seed(1))
    assert loss_of(model, "overwriting", AS_WRITTEN, 100) == loss_of(model, "overwriting", AS_WRITTEN, 100)
    assert loss_of(model, "overwriting", AS_WRITTEN, 100) != loss_of(model, "overwriting", AS_WRITTEN, 200)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sequences": 0}, "sequences: must be an integer of at least 1, got 0"),
        ({"max_queries": 0}, "max_queries: must be an integer of at least 1, got 0"),
        ({"length": "3S"}, "length: must be one of 2S, S, got '3S'"),
        ({"average": "median"}, "average: must be one of queries, chunks, got 'median'"),
    ],
)
def test_bad_protocols_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EvaluationProtocol(**wrong)  # type: ignore[arg-type]
