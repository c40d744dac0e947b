"""Sharded models in a group of one process: what is split, gathered, lent and put back."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from tiny_run import MODEL, TASK, TRAINING, tiny_task
from torch import distributed, nn

from fastweights.models.language_model import LanguageModel
from fastweights.models.translator import Translator, TranslatorConfig
from fastweights.runs.checkpoint import CheckpointError
from fastweights.training.gradients import TaskLoss
from fastweights.training.sharding import WholeModel, gathered, is_split, let_go, shard, split_like, whole
from fastweights.training.task import Share
from fastweights.training.tensors import load_model, load_optimiser, model_tensors, optimiser_tensors

CPU = torch.device("cpu")
TOKENS = torch.randint(1, 20, (2, 6), generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class Losses(nn.Module):
    """The mean loss of a translator."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Translator(TranslatorConfig(20, model_dim=8, num_heads=2, feed_forward_dim=8, dropout=0.0))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model.losses(self.model(tokens, tokens), tokens).mean()


def test_a_translator_has_the_same_gradients_whether_split_or_not() -> None:
    """Its layers compute in `attend`, and one table is embedding of both languages and softmax."""
    plain, split = (Losses() for _ in range(2))
    split.load_state_dict(plain.state_dict())
    end = shard(split, CPU, 1)
    assert all(is_split(parameter) for parameter in split.parameters())
    for module in (plain, split):
        module(TOKENS).backward()
    for expected, found in zip(plain.parameters(), split.parameters(), strict=True):
        assert is_split(found.grad)
        torch.testing.assert_close(whole(found.grad), expected.grad)
    norms = [nn.utils.clip_grad_norm_(module.parameters(), 0.1) for module in (plain, split)]
    assert float(whole(norms[1])) == pytest.approx(float(norms[0]))
    end()


def test_a_parameter_without_elements_is_no_obstacle() -> None:
    """The adaptive softmax has one for its clusters, and there may be none of these."""
    task = tiny_task(task=replace(TASK, model=replace(MODEL, cutoffs=())))
    model = task.build()
    assert model.embedding.cluster_table.numel() == 0
    loss = TaskLoss(task, model)
    end = shard(loss, CPU, 1)
    loss(task.batch(0, Share()), None)[0].backward()
    assert is_split(model.embedding.table.grad)
    end()


def test_a_forward_without_a_backward_can_be_given_up() -> None:
    split = Losses()
    end = shard(split, CPU, 1)
    split(TOKENS)
    assert not is_split(split.model.embedding.table)
    let_go(split)
    assert is_split(split.model.embedding.table)
    split(TOKENS).backward()
    assert all(parameter.grad is not None for parameter in split.parameters())
    end()


def test_a_model_is_lent_with_its_weights_and_keeps_none() -> None:
    torch.manual_seed(1)
    model = LanguageModel(MODEL).eval()
    expected, _ = model(TOKENS)
    lender = WholeModel(model)
    end = shard(model, CPU, 1)
    assert sum(parameter.numel() for parameter in lender.model.parameters()) == 0
    with lender.lent() as lent:
        found, _ = lent.eval()(TOKENS)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert not any(map(is_split, lent.parameters()))
    assert sum(parameter.numel() for parameter in lender.model.parameters()) == 0
    end()


def test_what_a_split_model_saves_a_whole_one_loads_and_the_other_way_round() -> None:
    task = tiny_task()
    models = [task.build() for _ in range(2)]
    loss = TaskLoss(task, models[0])
    end = shard(loss, CPU, 1)
    optimisers = [torch.optim.Adam(model.parameters(), lr=0.1, fused=True) for model in models]
    loss(task.batch(0, Share()), None)[0].backward()
    optimisers[0].step()

    # One process has all of a tensor, and gathering it copies nothing.
    saved = {name: x.clone() for name, x in gathered(model_tensors(models[0]), keep=True).items()}
    found = gathered(optimiser_tensors(optimisers[0], models[0]), keep=True)
    moments = {name: x.clone() for name, x in found.items()}
    assert not any(map(is_split, [*saved.values(), *moments.values()]))
    assert gathered(model_tensors(models[0]), keep=False) == {}
    load_model(models[1], saved, "here")
    load_optimiser(optimisers[1], models[1], moments, "here")
    for name, tensor in models[1].state_dict().items():
        assert torch.equal(tensor, saved[name])

    load_model(models[0], {name: 2 * tensor for name, tensor in saved.items()}, "here")
    doubled = {name: tensor if name.endswith(".step") else 2 * tensor for name, tensor in moments.items()}
    load_optimiser(optimisers[0], models[0], doubled, "here")
    for name, parameter in models[0].named_parameters():
        assert torch.equal(whole(parameter), 2 * saved[name])
        assert torch.equal(whole(optimisers[0].state[parameter]["exp_avg"]), doubled[f"{name}.exp_avg"])
    with pytest.raises(CheckpointError, match="another model"):
        load_model(models[0], {name: tensor[:1] for name, tensor in saved.items()}, "here")
    end()


def test_a_tensor_is_split_like_an_example_only() -> None:
    module = nn.Linear(3, 2)
    assert not is_split(split_like(torch.ones(2, 3), module.weight))
    end = shard(module, CPU, 1)
    assert is_split(split_like(torch.ones(2, 3), module.weight))
    end()


def test_sharding_changes_nothing_about_what_a_run_is() -> None:
    assert replace(TRAINING, sharding="full") == TRAINING
