"""Memories that are carried otherwise: reset by chance, after so many segments, or written by the present weights."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fastweights.data.text.corpus import Corpus
from fastweights.experiments.families import codec
from fastweights.experiments.language_models.carrying import reset_columns
from fastweights.experiments.language_models.config import Carrying, LanguageModellingConfig
from fastweights.experiments.language_models.presets import PRESETS, for_corpus
from fastweights.experiments.language_models.task import LanguageModelTask
from fastweights.models.language_model import LanguageModel
from fastweights.training.carried_state import States
from fastweights.training.task import Share

CARRIED = "cpu-linear-delta-nopos-carried"


def task_of(corpus: Corpus, name: str = CARRIED, **carrying: float) -> LanguageModelTask:
    run = for_corpus(PRESETS[name], corpus)
    assert isinstance(run.task, LanguageModellingConfig)
    config = replace(run.task, carrying=Carrying(**carrying)) if carrying else run.task  # type: ignore[arg-type]
    return LanguageModelTask(config, run.training, corpus)


def losses(task: LanguageModelTask, model: LanguageModel, steps: int) -> list[Tensor]:
    """The losses of the first steps while the weights stay as they are."""
    states: States | None = None
    found = []
    for step in range(steps):
        states = None if task.starts_anew(step) else states
        loss, states = task.loss(model, task.batch(step, Share(0, 1)), states)
        found.append(loss.detach())
    return found


def test_memories_that_are_always_reset_are_those_of_segments_alone(corpus: Corpus) -> None:
    truncated = task_of(corpus, "cpu-linear-delta-nopos")
    model = truncated.build()
    alone, carried = losses(truncated, model, 4), losses(task_of(corpus), model, 4)
    assert all(one != other for one, other in zip(alone[1:], carried[1:], strict=True))
    for options in ({"reset_chance": 1.0}, {"reset_every": 1}):
        torch.testing.assert_close(losses(task_of(corpus, **options), model, 4), alone)


def test_memories_are_reset_after_so_many_segments(corpus: Corpus) -> None:
    model = task_of(corpus).build()
    whole, short = losses(task_of(corpus), model, 4), losses(task_of(corpus, reset_every=2), model, 4)
    alone = losses(task_of(corpus, reset_every=1), model, 4)
    torch.testing.assert_close(short, [whole[0], whole[1], alone[2], short[3]])
    assert short[3] not in (whole[3], alone[3])
    assert [task_of(corpus, reset_every=2).starts_anew(step) for step in range(4)] == [True, False, True, False]


def test_a_column_that_is_reset_leaves_the_others_alone(corpus: Corpus) -> None:
    task = task_of(corpus, reset_chance=0.5)
    model = task.build()
    _, states = task.loss(model, task.batch(0, Share(0, 1)), None)
    segment = replace(task.batch(1, Share(0, 1)), reset=torch.tensor([True, False]))
    _, after = task.loss(model, segment, states)
    for row, before in ((0, None), (1, states)):
        _, expected = model(segment.inputs, before)
        assert after is not None
        torch.testing.assert_close(after[0].weights[row], expected[0].weights[row])
        assert after[0].steps[row] == expected[0].steps[row]


def test_chances_follow_from_seed_and_step(corpus: Corpus) -> None:
    carrying = Carrying(reset_chance=0.25)
    drawn = torch.stack([reset_columns(carrying, 3, step, 16) for step in range(200)])
    assert torch.equal(drawn[7], reset_columns(carrying, 3, 7, 16))
    assert not torch.equal(drawn[7], reset_columns(carrying, 4, 7, 16))
    assert abs(drawn.float().mean().item() - 0.25) < 0.03
    whole = task_of(corpus, reset_chance=0.5).batch(2, Share(0, 1)).reset
    halves = [task_of(corpus, reset_chance=0.5).batch(2, Share(part, 2)).reset for part in range(2)]
    assert torch.equal(whole, torch.cat(halves))


def test_weights_that_stay_rewrite_what_was_carried(corpus: Corpus) -> None:
    model = task_of(corpus).build()
    torch.testing.assert_close(losses(task_of(corpus, rewritten=3), model, 4), losses(task_of(corpus), model, 4))
    # With one segment the fourth step knows the third alone.
    (short,) = losses(task_of(corpus, rewritten=1), model, 4)[3:]
    (pair,) = losses(task_of(corpus, reset_every=2), model, 4)[3:]
    torch.testing.assert_close(short, pair)
    assert task_of(corpus, rewritten=3).initial_states(model, 2) is None


def test_rewritten_memories_have_no_gradient(corpus: Corpus) -> None:
    task = task_of(corpus, rewritten=1)
    segment, model = task.batch(1, Share(0, 1)), task.build()
    word = torch.tensor([[5], [5]])
    loss, _ = task.loss(model, replace(segment, before=word), None)
    _, states = model(word)
    hidden, _ = model(segment.inputs, [state.detach() for state in states])
    expected = torch.autograd.grad(model.losses(hidden, segment.targets).mean(), model.embedding.table)
    torch.testing.assert_close(torch.autograd.grad(loss, model.embedding.table), expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["carry_state=false", "carrying.reset_every=2"], "carrying: without carry_state no memory is carried"),
        (["carrying.reset_chance=1.5"], "reset_chance: expected a probability, got 1.5"),
        (["carrying.reset_every=-1"], "reset_every: expected at least 0 segments, got -1"),
        (["carrying.rewritten=2", "carrying.reset_chance=0.1"], "reset_chance: a memory that is written anew"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        codec().changed(PRESETS[CARRIED], changes)


def test_hidden_states_are_not_reset_one_by_one(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="reset_chance: only memories of fixed size"):
        task_of(corpus, "cpu-transformer-xl", reset_chance=0.5).build()
