"""What people do with a model of transformers, done with an accelerated one: padding, mixed precision, training."""

import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.testing import assert_close
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from fastweights.hf import accelerate
from fastweights.hf.replacements import RULES
from tiny_models import tiny_model

SERVED = list(accelerate.status())
FAMILIES = [name for name in ("qwen3_5", "mamba2", "kimi_linear") if name in SERVED] or SERVED[:1]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(verbosity)


def tokens(batch: int, steps: int) -> Tensor:
    return torch.randint(3, 60, (batch, steps), generator=torch.Generator().manual_seed(steps))


@pytest.mark.parametrize("architecture", SERVED)
def test_padded_prompts_beams_and_generation_without_a_cache(architecture: str) -> None:
    model, ids = tiny_model(architecture), tokens(3, 12)
    mask = torch.ones_like(ids)
    mask[0, :5], mask[1, :1] = 0, 0
    greedy = {"max_new_tokens": 6, "do_sample": False, "attention_mask": mask}

    def generated() -> list[Tensor]:
        ways: tuple[dict[str, Any], ...] = ({}, {"num_beams": 3}, {"use_cache": False})
        return [model.generate(ids, **greedy, **way) for way in ways]

    stock = generated()
    with accelerate(model):
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(generated(), stock, strict=True))


def without_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    def precise(*given: Any, **named: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return function(*given, **named)

    return precise


@pytest.mark.parametrize("architecture", [name for name in FAMILIES if name != "mamba2"])
def test_under_autocast_the_rule_keeps_its_precision(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of transformers, which means to compute in float32, has its products rounded to bfloat16 there."""
    model, ids = tiny_model(architecture), tokens(2, 40)
    modelling = sys.modules[type(model).__module__]

    def logits() -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            return model(ids).logits.float()

    stock = logits()
    for name in RULES & vars(modelling).keys():
        monkeypatch.setattr(modelling, name, without_autocast(vars(modelling)[name]))
    precise = logits()
    monkeypatch.undo()
    with accelerate(model):
        ours = logits()
    assert (stock - precise).abs().max() > 1e-2
    assert_close(ours, precise, rtol=0, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("architecture", FAMILIES)
def test_weights_in_half_precision(architecture: str, dtype: torch.dtype) -> None:
    model, ids = tiny_model(architecture).to(dtype), tokens(2, 40)
    with torch.no_grad():
        stock = model(ids).logits
        with accelerate(model):
            ours = model(ids).logits
            model.generate(ids[:, :9], max_new_tokens=4, do_sample=False)
    assert ours.dtype == stock.dtype
    # Where the last bit of a read goes the other way, the layers behind it see that.
    assert_close(ours, stock, rtol=0, atol=8 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("architecture", FAMILIES)
def test_gradient_checkpointing(architecture: str) -> None:
    model, ids = tiny_model(architecture).train(), tokens(2, 20)

    def gradients() -> dict[str, Tensor]:
        model.zero_grad()
        model(ids, use_cache=False).logits.logsumexp(dim=-1).mean().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    with accelerate(model):
        plain = gradients()
        model.gradient_checkpointing_enable()
        assert_close(gradients(), plain, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", FAMILIES)
def test_trainer_and_saving_work_as_before(architecture: str, tmp_path: Path) -> None:
    model = tiny_model(architecture)
    data = [{"input_ids": tokens(1, 16)[0], "labels": tokens(1, 16)[0]} for _ in range(8)]
    options = TrainingArguments(
        str(tmp_path / "trainer"),
        max_steps=3,
        per_device_train_batch_size=2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
    )
    twin = deepcopy(model)
    stock = Trainer(twin, options, train_dataset=data).train().training_loss
    with accelerate(model):
        ours = Trainer(model, options, train_dataset=data).train().training_loss
        model.save_pretrained(tmp_path / "saved")
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
        assert torch.equal(loaded.eval()(tokens(1, 9)).logits, model.eval()(tokens(1, 9)).logits)
    assert ours == pytest.approx(stock, abs=1e-4)
