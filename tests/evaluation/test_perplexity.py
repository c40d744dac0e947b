"""Each way of giving context against the plainest program that does the same."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from fastweights.evaluation.perplexity import CarriedState, Context, IndependentSegments, SlidingWindow, evaluate
from fastweights.feature_maps import EluPlusOne, Favor
from fastweights.memory import AttentionNormalisation, NoNormalisation
from fastweights.models.attention import (
    AttentionConfig,
    FastWeightAttentionConfig,
    RelativeAttentionConfig,
    SoftmaxAttentionConfig,
)
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.update_rules import SumRule

TOKENS = np.random.default_rng(3).integers(0, 30, 58).astype(np.uint16)
ATTENTIONS = {
    "delta": FastWeightAttentionConfig(),
    "sum": FastWeightAttentionConfig(EluPlusOne(), SumRule(), NoNormalisation(), AttentionNormalisation()),
    "favor": FastWeightAttentionConfig(Favor(num_features=4)),
    "softmax": SoftmaxAttentionConfig(),
}


def model_with(attention: AttentionConfig, positions: bool = True) -> LanguageModel:
    torch.manual_seed(2)
    config = LanguageModelConfig(30, 8, 2, 2, 16, attention, positions=positions, cutoffs=(12,))
    model = LanguageModel(config).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model


def log_probability(model: LanguageModel, context: list[int], word: int) -> float:
    """log p(word | context), from the whole context and the whole softmax."""
    with torch.no_grad():
        hidden, _ = model(torch.tensor([context]))
        return float(model.log_probabilities(hidden)[0, -1, word])


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_stride_1_is_the_naive_evaluation_of_the_paper(name: str, batch_size: int) -> None:
    model, length = model_with(ATTENTIONS[name]).eval(), 9
    words = TOKENS.tolist()
    losses = [-log_probability(model, words[max(0, i - length) : i], words[i]) for i in range(1, len(words))]
    score = evaluate(model, TOKENS, SlidingWindow(length, 1, batch_size))
    assert score is not None
    assert score.tokens == len(words) - 1
    assert score.loss == pytest.approx(sum(losses) / len(losses), rel=1e-12)
    assert score.perplexity == pytest.approx(math.exp(score.loss))


@pytest.mark.parametrize("stride", [2, 3, 5, 9])
def test_larger_strides_give_each_token_the_context_they_promise(stride: int) -> None:
    model, length = model_with(ATTENTIONS["delta"]).eval(), 9
    words, losses = TOKENS.tolist(), []
    for i in range(1, len(words)):
        # The window that first reaches target i ends at the next multiple of the stride, or at the end of the text.
        end = length if i <= length else min(length + math.ceil((i - length) / stride) * stride, len(words) - 1)
        losses.append(-log_probability(model, words[end - length : i], words[i]))
    score = evaluate(model, TOKENS, SlidingWindow(length, stride, 4))
    assert score is not None
    assert score.loss == pytest.approx(sum(losses) / len(losses), rel=1e-12)


@pytest.mark.parametrize("length", [1, 8, 19, 57, 80])
def test_segments_start_empty(length: int) -> None:
    model = model_with(ATTENTIONS["delta"]).eval()
    words = TOKENS.tolist()
    losses = [-log_probability(model, words[(i - 1) // length * length : i], words[i]) for i in range(1, len(words))]
    score = evaluate(model, TOKENS, IndependentSegments(length, 3))
    assert score is not None
    assert score.loss == pytest.approx(sum(losses) / len(losses), rel=1e-12)


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("length", [1, 7, 20])
def test_carried_segments_equal_one_long_pass(name: str, length: int) -> None:
    model = model_with(ATTENTIONS[name]).eval()
    whole = evaluate(model, TOKENS, IndependentSegments(len(TOKENS)))
    carried = evaluate(model, TOKENS, CarriedState(length))
    assert whole is not None
    assert carried is not None
    assert carried.loss == pytest.approx(whole.loss, rel=1e-10)


@pytest.mark.parametrize("reach", [1, 7, 19, 20, 100])
def test_a_memory_reaches_back_to_where_it_was_emptied(reach: int) -> None:
    model = model_with(ATTENTIONS["delta"]).eval()
    emptied = evaluate(model, TOKENS, IndependentSegments(reach))
    carried = evaluate(model, TOKENS, CarriedState(6, reach, 2))
    assert emptied is not None
    assert carried is not None
    assert carried.loss == pytest.approx(emptied.loss, rel=1e-10)


def test_transformer_xl_carries_its_memory_too() -> None:
    model = model_with(RelativeAttentionConfig(memory_length=200), positions=False).eval()
    whole = evaluate(model, TOKENS, IndependentSegments(len(TOKENS)))
    carried = evaluate(model, TOKENS, CarriedState(6))
    assert whole is not None
    assert carried is not None
    assert carried.loss == pytest.approx(whole.loss, rel=1e-10)


@pytest.mark.parametrize("targets", [1, 2, 5, 6, 7, 30, 41])
@pytest.mark.parametrize(
    "context",
    [
        SlidingWindow(6, 1, 4),
        SlidingWindow(6, 4, 3),
        SlidingWindow(6, 6, 1),
        IndependentSegments(6, 2),
        CarriedState(6),
        CarriedState(6, 12),
        CarriedState(6, 13, 2),
        CarriedState(6, 4),
        CarriedState(6, 1000),
    ],
)
def test_every_target_is_scored_once(context: Context, targets: int) -> None:
    scored = Counter(
        start + piece.length - back
        for piece in context.pieces(targets)
        for start in piece.starts
        for back in range(piece.scored)
    )
    assert scored == Counter(range(1, targets + 1))
    assert all(piece.starts[-1] + piece.length <= targets for piece in context.pieces(targets))


def test_evaluation_leaves_the_model_as_it_was() -> None:
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(30, 8, 2, 1, 16, ATTENTIONS["favor"], dropout=0.5))
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first, second = (evaluate(model, TOKENS, SlidingWindow(9)) for _ in range(2))
    assert first == second
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_an_interrupted_evaluation_says_so() -> None:
    calls = iter([False, False, True])
    assert evaluate(model_with(ATTENTIONS["delta"]), TOKENS, CarriedState(5), interrupted=lambda: next(calls)) is None


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="stride: expected 1 to the window's length 8, got 9"):
        SlidingWindow(8, 9)
    with pytest.raises(ValueError, match="at least 1"):
        CarriedState(0)
    with pytest.raises(ValueError, match="reach: expected at least 1 token, got 0"):
        CarriedState(5, 0)
    with pytest.raises(ValueError, match="nothing to predict"):
        evaluate(model_with(ATTENTIONS["delta"]), TOKENS[:1], CarriedState(5))
