"""The loop: what a step computes, and what a restart repeats."""

import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_run import MODEL, POLICY, TASK, TRAINING, losses, rows, tokens, train, trainer
from torch.nn.functional import cross_entropy

from fastweights.data.text.segments import SegmentStream
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.feature_maps import EluPlusOne
from fastweights.models.attention import FastWeightAttentionConfig, RelativeAttentionConfig, SoftmaxAttentionConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.runs.checkpoint import load_checkpoint, newest_checkpoint
from fastweights.runs.directory import RunDirectory
from fastweights.training.config import CheckpointPolicy, TrainingConfig
from fastweights.training.random_numbers import seed_for
from fastweights.training.task import Evaluation

PLAIN = replace(MODEL, dropout=0.0, attention=FastWeightAttentionConfig(feature_map=EluPlusOne()))
TRUNCATED = replace(TASK, carry_state=False)


def with_model(model: LanguageModelConfig) -> LanguageModellingConfig:
    return replace(TASK, model=model)


def last(path: Path) -> dict[str, bytes]:
    """The bytes of the newest checkpoint's tensors."""
    newest = max((path / "checkpoints").glob("step-??????"))
    return {name: (newest / f"{name}.safetensors").read_bytes() for name in ("model", "optim", "carried")}


def test_steps_are_those_of_a_loop_written_out(tmp_path: Path) -> None:
    """Over the end of an epoch, where the memory is emptied: 82 tokens in a column, ten segments of 8 and one of 1."""
    training = replace(TRAINING, steps=13, accumulation=1, clip_norm=0.3, warmup_steps=2)
    train(tmp_path, training, task=with_model(PLAIN))
    torch.manual_seed(seed_for("model", training.seed))
    model = LanguageModel(PLAIN)
    optimiser = torch.optim.Adam(model.parameters())
    stream, states, expected = tokens().reshape(1, -1)[:, :328].reshape(4, 82).astype("int64"), None, []
    for step in range(13):
        start = 8 * (step % 11)
        part = torch.from_numpy(stream[:, start : start + 9])
        hidden, states = model(part[:, :-1], None if start == 0 else states)
        states = [state.detach() for state in states]
        loss = cross_entropy(model.log_probabilities(hidden).flatten(0, 1), part[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        update = step + 1
        rate = 0.01 * update / 2 if update <= 2 else 0.01 * (1 + math.cos(math.pi * update / 13)) / 2
        optimiser.param_groups[0]["lr"] = rate
        optimiser.step()
        expected.append(float(loss.detach()))
    assert losses(tmp_path) == pytest.approx(expected, rel=1e-5)
    saved = load_checkpoint(tmp_path / "checkpoints" / "step-000013")
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(saved.model[name], parameter.detach(), rtol=1e-4, atol=1e-5)
    for layer, state in enumerate(states or []):
        torch.testing.assert_close(saved.carried[f"{layer}.weights"], state.weights, rtol=1e-4, atol=1e-5)
        assert saved.carried[f"{layer}.steps"].tolist() == [16] * 4


@pytest.mark.parametrize("carry_state", [False, True])
def test_accumulation_changes_nothing_but_rounding(tmp_path: Path, carry_state: bool) -> None:
    """With dropout, whose masks belong to the columns; Adam would hide a gradient that is too large, so look at it."""
    found = []
    for parts in (1, 2, 4):
        training = replace(TRAINING, steps=14, accumulation=parts)
        task = replace(TASK, model=replace(PLAIN, dropout=0.2), carry_state=carry_state)
        train(tmp_path / str(parts), training, task=task)
        found.append(load_checkpoint(tmp_path / str(parts) / "checkpoints" / "step-000014").model)
        for name in ("loss", "gradient_norm"):
            logged, expected = ([row[name] for row in rows(tmp_path / str(n)) if name in row] for n in (parts, 1))
            assert logged == pytest.approx(expected, rel=1e-4)
    for name, tensor in found[0].items():
        torch.testing.assert_close(found[1][name], tensor, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found[2][name], tensor, rtol=1e-4, atol=1e-5)


def test_a_carried_state_is_reset_where_an_epoch_starts(tmp_path: Path) -> None:
    training, seen = replace(TRAINING, steps=24, accumulation=1), []
    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory, training, task=with_model(PLAIN))
        run.model.register_forward_pre_hook(
            lambda module, given: (
                seen.append(0 if given[1] is None else int(given[1][0].steps[0])) if module.training else None
            )
        )
        run.run()
    # 82 tokens in a column: ten segments of 8 and one of 1.
    epoch = [8 * segment for segment in range(11)]
    assert seen == [*epoch, *epoch, 0, 8]


def test_segments_do_not_see_each_other_in_truncated_mode(tmp_path: Path) -> None:
    training, seen = replace(TRAINING, steps=5), []
    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory, training, task=TRUNCATED)
        run.model.register_forward_pre_hook(lambda module, given: seen.append(given[1]) if module.training else None)
        run.run()
    assert seen == [None] * 10
    assert last(tmp_path)["carried"] == last(tmp_path)["carried"][:8] + b"{}      "


@pytest.mark.parametrize("stop_at", [1, 4, 7, 11, 12])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path: Path, stop_at: int) -> None:
    training = replace(TRAINING, steps=16)
    train(tmp_path / "whole", training)
    with RunDirectory.claim(tmp_path / "parts", {"training": str(training)}, {}) as directory:
        run = trainer(directory, training)
        hook = run.gradients

        def stopping(step: int, states: Any) -> Any:
            if step == stop_at - 1:
                signal.raise_signal(signal.SIGTERM)
            return hook(step, states)

        run.gradients = stopping  # type: ignore[assignment]
        ending = run.run()
    assert (ending.finished, ending.signal, ending.progress.step) == (False, signal.SIGTERM, stop_at)
    assert train(tmp_path / "parts", training).finished
    assert (tmp_path / "parts" / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    assert last(tmp_path / "parts") == last(tmp_path / "whole")


def test_a_signal_during_validation_puts_it_off(tmp_path: Path) -> None:
    training = replace(TRAINING, steps=7)
    train(tmp_path / "whole", training)
    with RunDirectory.claim(tmp_path / "parts", {"training": str(training)}, {}) as directory:
        run = trainer(directory, training)

        def evaluate(model: Any, step: int, interrupted: Any) -> Evaluation | None:
            signal.raise_signal(signal.SIGINT)
            return None if interrupted() else Evaluation(1.0, {"valid_loss": 1.0})

        run.task.evaluate = evaluate  # type: ignore[method-assign]
        ending = run.run()
    assert (ending.finished, ending.signal) == (False, signal.SIGINT)
    assert not any("valid_loss" in row for row in rows(tmp_path / "parts"))
    ending = train(tmp_path / "parts", training)
    assert ending.progress.best_step == 7
    assert (tmp_path / "parts" / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    assert newest_checkpoint(tmp_path / "parts" / "checkpoints").checkpoint.state["best_step"] == 7  # type: ignore[union-attr]


def test_a_finished_run_trains_no_further(tmp_path: Path) -> None:
    first = train(tmp_path, replace(TRAINING, steps=5))
    before = last(tmp_path)
    again = train(tmp_path, replace(TRAINING, steps=5))
    assert again.finished
    assert again.progress.step == first.progress.step
    assert last(tmp_path) == before


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(tmp_path / name, replace(TRAINING, steps=6, seed=seed))
    assert losses(tmp_path / "a") == losses(tmp_path / "b") != losses(tmp_path / "c")


def test_a_damaged_checkpoint_is_put_aside_and_the_losses_stay_the_same(tmp_path: Path) -> None:
    train(tmp_path / "whole")
    train(tmp_path / "run", TRAINING, policy=replace(POLICY, keep_checkpoints=3))
    said: list[str] = []
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    (newest / "optim.safetensors").write_bytes((newest / "optim.safetensors").read_bytes()[:-1])
    ending = train(tmp_path / "run", TRAINING, say=said.append)
    assert ending.finished
    assert len(said) == 1
    assert "optim.safetensors" in said[0]
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    assert last(tmp_path / "run") == last(tmp_path / "whole")


def test_random_features_are_redrawn_each_step_but_not_under_a_carried_state(tmp_path: Path) -> None:
    def drawn(path: Path, training: TrainingConfig, task: LanguageModellingConfig) -> list[bytes]:
        with RunDirectory.claim(path, {}, {}) as directory:
            run, found = trainer(directory, training, task=task), []
            attention = run.model.blocks[0].attention.mapping  # type: ignore[union-attr, index]
            run.model.register_forward_pre_hook(
                lambda module, given: found.append(attention.projection.numpy().tobytes()) if module.training else None  # type: ignore[union-attr]
            )
            run.run()
        return found

    truncated = drawn(tmp_path / "a", replace(TRAINING, steps=4), TRUNCATED)
    assert truncated[0::2] == truncated[1::2]
    assert len(set(truncated)) == 4
    carried = drawn(tmp_path / "b", replace(TRAINING, steps=12), TASK)
    assert len(set(carried[:22])) == 1
    assert len(set(carried)) == 2


def test_transformer_xl_carries_its_memory_across_a_restart(tmp_path: Path) -> None:
    task = with_model(replace(MODEL, attention=RelativeAttentionConfig(memory_length=12)))
    training = replace(TRAINING, steps=9)
    train(tmp_path / "whole", training, task=task)
    train(tmp_path / "parts", training, task=task, policy=CheckpointPolicy(save_every_steps=5, keep_checkpoints=9))
    for path in (tmp_path / "parts" / "checkpoints").glob("step-*"):
        if path.name != "step-000005":
            (path / "state.json").unlink()
    assert train(tmp_path / "parts", training, task=task, say=lambda line: None).finished
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")


def test_softmax_cannot_carry_its_state(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="would grow without bound"):
        train(tmp_path, TRAINING, task=with_model(replace(MODEL, attention=SoftmaxAttentionConfig())))


def test_bfloat16_trains_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    training = replace(TRAINING, steps=12, precision="bfloat16")
    train(tmp_path / "whole", training)
    exact = tmp_path / "exact"
    train(exact, replace(training, precision="float32"))
    assert losses(tmp_path / "whole") != losses(exact)
    # A few of bfloat16's relative steps of 2⁻⁸.
    assert losses(tmp_path / "whole") == pytest.approx(losses(exact), rel=4 * 2**-8)
    saved = load_checkpoint(tmp_path / "whole" / "checkpoints" / "step-000012")
    tensors = {**saved.model, **saved.optimiser, **saved.carried}
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32, torch.int64}
    train(tmp_path / "parts", training, policy=CheckpointPolicy(save_every_steps=5, keep_checkpoints=9))
    for path in (tmp_path / "parts" / "checkpoints").glob("step-*"):
        if path.name != "step-000005":
            (path / "manifest.json").unlink()
    train(tmp_path / "parts", training, say=lambda line: None)
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")


def test_a_text_that_repeats_itself_is_learnt(tmp_path: Path) -> None:
    stream = (np.arange(331) % 7).astype(np.uint16)
    training, rarely = replace(TRAINING, steps=200, evaluate_every=200), replace(POLICY, save_every_steps=200)
    train(tmp_path, training, task=with_model(PLAIN), stream=stream, policy=rarely)
    assert losses(tmp_path)[0] > 2
    assert losses(tmp_path)[-1] < 0.2


def test_a_shuffled_run_reads_the_segments_in_its_own_order(tmp_path: Path) -> None:
    training, seen = replace(TRAINING, steps=11, accumulation=1), []
    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory, training, task=replace(TRUNCATED, shuffle=True))
        run.model.register_forward_pre_hook(
            lambda module, given: seen.append(given[0].clone()) if module.training else None
        )
        run.run()
    stream = SegmentStream(tokens(), 4, 8, shuffle=True, seed=training.seed)
    assert all(torch.equal(found, stream.at(step).inputs) for step, found in enumerate(seen))
    assert not torch.equal(seen[0], SegmentStream(tokens(), 4, 8).at(0).inputs)
