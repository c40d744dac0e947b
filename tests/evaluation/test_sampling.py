"""Continuing a text."""

import math
from collections import Counter
from itertools import islice

import pytest
import torch

from fastweights.evaluation.sampling import Sampling, generate
from fastweights.layers.word_scores import WordScores
from fastweights.memory import FastWeightState
from fastweights.models.attention import FastWeightAttentionConfig, RelativeAttentionConfig, SoftmaxAttentionConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def model_with(
    attention: FastWeightAttentionConfig | SoftmaxAttentionConfig | RelativeAttentionConfig,
) -> LanguageModel:
    torch.manual_seed(2)
    model = LanguageModel(LanguageModelConfig(20, 8, 2, 2, 16, attention, positions=False, cutoffs=(12,))).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model


@pytest.mark.parametrize(
    "attention", [FastWeightAttentionConfig(), SoftmaxAttentionConfig(), RelativeAttentionConfig(memory_length=500)]
)
@pytest.mark.parametrize("prompt", [PROMPT[:1], PROMPT, PROMPT * 150])
def test_greedy_words_are_those_of_the_whole_text(
    attention: FastWeightAttentionConfig | SoftmaxAttentionConfig | RelativeAttentionConfig, prompt: list[int]
) -> None:
    if isinstance(attention, RelativeAttentionConfig) and len(prompt) > 400:
        pytest.skip("it forgets what is further back than its memory")
    model = model_with(attention).eval()
    text = list(prompt)
    with torch.no_grad():
        for _ in range(10):
            text.append(int(model.log_probabilities(model(torch.tensor([text]))[0])[0, -1].argmax()))
    assert list(islice(generate(model, prompt, Sampling(temperature=0)), 10)) == text[len(prompt) :]


def test_the_state_does_not_grow() -> None:
    model, sizes = model_with(FastWeightAttentionConfig()), set()
    model.blocks[0].register_forward_hook(lambda module, given, result: sizes.add(result[1].weights.shape))
    list(islice(generate(model, PROMPT * 200), 20))
    assert len(sizes) == 1
    assert isinstance(model(torch.tensor([PROMPT]))[1][0], FastWeightState)


def test_a_seed_repeats_and_another_does_not() -> None:
    model = model_with(FastWeightAttentionConfig())
    drawn = [tuple(islice(generate(model, PROMPT, Sampling(seed=seed)), 30)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def draws(sampling: Sampling, probabilities: list[float], count: int = 4000) -> Counter[int]:
    generator = torch.Generator().manual_seed(0)
    scores = WordScores(torch.tensor(probabilities).log())
    return Counter(sampling.choose(scores, generator) for _ in range(count))


GROUPED = ([0.3, 0.1, 0.061], [0.2, 0.099, 0.05, 0.02, 0.011], [0.049, 0.041, 0.04, 0.019, 0.01])
"""Probabilities of frequent words and of the words of two clusters, the likeliest of which is likelier than most."""
PLAIN = torch.tensor([p for group in GROUPED for p in group], dtype=torch.float64)


def grouped() -> WordScores:
    """The same words in clusters that nobody has looked into."""
    frequent, *tails = (torch.tensor(group, dtype=torch.float64) for group in GROUPED)
    head = torch.cat([frequent, torch.stack([tail.sum() for tail in tails])]).log()
    return WordScores(head, (3, 8, 13), lambda number: (tails[number] / tails[number].sum()).log())


def expected(sampling: Sampling) -> torch.Tensor:
    """The distribution by its definition over all words."""
    order = PLAIN.argsort(descending=True, stable=True)
    p = (PLAIN ** (1 / sampling.temperature))[order][: sampling.top_k or None]
    p = p / p.sum()
    p = torch.where(p.cumsum(0) - p < sampling.top_p, p, 0.0)
    return torch.zeros(len(PLAIN), dtype=torch.float64).index_put((order[: len(p)],), p / p.sum())


WAYS = [
    Sampling(), Sampling(0.5), Sampling(2.0), Sampling(top_k=4), Sampling(0.7, top_k=9), Sampling(top_p=0.55),
    Sampling(top_p=0.95), Sampling(1.5, top_p=0.6), Sampling(0.8, top_k=7, top_p=0.9),
]  # fmt: skip


def chi_square(sampling: Sampling, count: int) -> float:
    """How many standard deviations Σ (found - expected)² / expected is above its mean."""
    generator = torch.Generator().manual_seed(1)
    # Clusters that were looked into stay known: most draws are from scores where none is.
    every = 1 if count < 100_000 else 10
    drawn = [
        sampling.choose(scores, generator)
        for _ in range(count // every)
        for scores in [grouped()]
        for _ in range(every)
    ]
    found = torch.bincount(torch.tensor(drawn), minlength=13)
    wanted = expected(sampling) * count
    assert not found[wanted == 0].any()
    possible = wanted > 0
    freedom = int(possible.sum()) - 1
    return float(((found - wanted)[possible] ** 2 / wanted[possible]).sum() - freedom) / math.sqrt(2 * max(freedom, 1))


@pytest.mark.parametrize("sampling", WAYS, ids=str)
def test_words_in_clusters_are_drawn_as_often_as_all_words_at_once(sampling: Sampling) -> None:
    assert chi_square(sampling, 150) < 4


@pytest.mark.slow
@pytest.mark.parametrize("sampling", WAYS, ids=str)
def test_a_million_words_in_clusters_are_drawn_as_often_as_all_at_once(sampling: Sampling) -> None:
    assert chi_square(sampling, 1_000_000 if sampling == Sampling() else 30_000) < 4


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.0), Sampling(top_k=2), Sampling(top_p=0.4)], ids=str)
def test_clusters_that_cannot_matter_are_not_looked_into(sampling: Sampling) -> None:
    def within(number: int) -> torch.Tensor:
        raise AssertionError(f"cluster {number} was looked into")

    scores = WordScores(torch.tensor([0.5, 0.499, 1e-30, 1e-30]).log(), (2, 10, 30), within)
    assert {sampling.choose(scores, torch.Generator().manual_seed(seed)) for seed in range(30)} <= {0, 1}


def test_temperature_raises_the_probabilities_to_a_power() -> None:
    found = draws(Sampling(temperature=0.5), [0.2, 0.5, 0.3])
    squares = [0.04, 0.25, 0.09]
    for word, square in enumerate(squares):
        assert found[word] / 4000 == pytest.approx(square / sum(squares), abs=0.03)


@pytest.mark.parametrize("temperature", [1e-300, 1e-310, 5e-324])
def test_tiny_temperatures_take_the_likeliest(temperature: float) -> None:
    assert set(draws(Sampling(temperature), [0.2, 0.5, 0.3, 0.0], 20)) == {1}
    assert set(draws(Sampling(temperature, top_k=2), [0.4, 0.2, 0.4], 50)) == {0, 2}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("scores", [[0.0, math.nan], [0.0, math.inf], [-math.inf, -math.inf]])
def test_what_is_no_probability_is_refused(scores: list[float], temperature: float) -> None:
    with pytest.raises(FloatingPointError, match="the model's probabilities are not finite"):
        Sampling(temperature).choose(WordScores(torch.tensor(scores)), torch.Generator())


def test_top_k_and_top_p_leave_out_the_unlikely() -> None:
    assert set(draws(Sampling(top_k=2), [0.1, 0.4, 0.2, 0.3])) == {1, 3}
    assert set(draws(Sampling(top_p=0.65), [0.1, 0.4, 0.2, 0.3])) == {1, 3}
    assert set(draws(Sampling(top_p=0.75), [0.1, 0.4, 0.2, 0.3])) == {1, 2, 3}
    assert set(draws(Sampling(top_p=0.01), [0.1, 0.4, 0.2, 0.3])) == {1}
    assert set(draws(Sampling(top_k=3, top_p=0.5), [0.1, 0.4, 0.2, 0.3])) == {1, 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
    ],
)
def test_impossible_sampling_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(**options)  # type: ignore[arg-type]


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        next(generate(model_with(FastWeightAttentionConfig()), []))
