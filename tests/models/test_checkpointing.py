"""Gradient checkpointing: every layer computes twice in training, once otherwise, and no bit of a gradient changes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from fastweights.layers import Block
from fastweights.layers.decoder_block import DecoderBlock
from fastweights.models.attention import FastWeightAttentionConfig, SoftmaxAttentionConfig
from fastweights.models.checkpointing import CheckpointedModel
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.models.translator import Translator, TranslatorConfig

ATTENTIONS = {"fast weights": FastWeightAttentionConfig(), "softmax": SoftmaxAttentionConfig()}
TOKENS = torch.arange(2 * 9).view(2, 9) % 20


def language_model(attention: str) -> tuple[CheckpointedModel, Callable[[], Tensor]]:
    torch.manual_seed(0)
    sizes = LanguageModelConfig(20, 8, 2, 3, 16, ATTENTIONS[attention], dropout=0.3, cutoffs=())
    model = LanguageModel(sizes)
    return model, lambda: model.losses(model(TOKENS[:, :-1])[0], TOKENS[:, 1:]).mean()


def translator(attention: str) -> tuple[CheckpointedModel, Callable[[], Tensor]]:
    torch.manual_seed(0)
    one = ATTENTIONS[attention]
    model = Translator(TranslatorConfig(20, 8, 2, 2, 1, 16, one, one, one, dropout=0.3))
    return model, lambda: model.losses(model(TOKENS, TOKENS[:, :-1]), TOKENS[:, 1:]).mean()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """The blocks that computed something, in their order."""
    seen: list[nn.Module] = []

    def noting(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda block, *inputs: (seen.append(block), compute(block, *inputs))[1]

    monkeypatch.setattr(Block, "_finish", noting(Block._finish))
    monkeypatch.setattr(DecoderBlock, "_run", noting(DecoderBlock._run))
    return seen


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("build", [language_model, translator])
def test_layers_compute_twice_and_gradients_stay_the_same(
    build: Callable[[str], tuple[CheckpointedModel, Callable[[], Tensor]]], attention: str, calls: list[nn.Module]
) -> None:
    model, loss = build(attention)

    def step() -> tuple[dict[str, Tensor | None], int]:
        calls.clear()
        model.zero_grad()
        torch.manual_seed(1)
        loss().backward()
        return {name: parameter.grad for name, parameter in model.named_parameters()}, len(calls)

    expected, once = step()
    expected = {name: None if gradient is None else gradient.clone() for name, gradient in expected.items()}
    model.gradient_checkpointing = True
    gradients, twice = step()
    assert (once, twice) == (3, 6)
    assert_close(gradients, expected, rtol=0, atol=0)
    model.eval()
    assert step()[1] == 3
