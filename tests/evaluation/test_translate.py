"""Translating lines: order, empty lines, independence of neighbours, limits, scores, and the search itself."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from fastweights.data.translation_tokeniser import END, START, JointBytePairs
from fastweights.evaluation.translate import Search, hypotheses, translate
from fastweights.models.translator import Translator
from own_search import beam_search, greedy
from translators import TRANSLATORS

TOKENISER = JointBytePairs(300).fit(["two dogs run", "Zwei Hunde laufen", "a cat", "eine Katze"] * 3)
LINES = ["two dogs", "", "a cat runs and runs", "dogs\n", "  ", "Katze"]
SHORT = Search(beams=3, longest_ratio=1.0, longest_extra=6)


@pytest.fixture
def model() -> Translator:
    torch.manual_seed(0)
    model = Translator(replace(TRANSLATORS["linear"], vocabulary_size=len(TOKENISER))).train()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model


def texts(model: Translator, lines: list[str], search: Search = SHORT) -> list[str]:
    return [translation.text for translation in translate(model, TOKENISER, lines, search)]


def test_the_search_is_our_own(model: Translator) -> None:
    found = texts(model, LINES)
    greedily = texts(model, LINES, replace(SHORT, beams=1))
    assert model.training, "as it was"
    model.eval()
    for line, beam, single in zip(LINES, found, greedily, strict=True):
        if not line.strip():
            assert beam == single == ""
            continue
        source = [*TOKENISER.encode([line.strip()])[0], END]
        longest = SHORT.longest(len(source))
        expected = beam_search(model, source, 3, SHORT.length_penalty, longest, forced_end=True)
        assert TOKENISER.decode([expected]) == [beam]
        assert TOKENISER.decode([greedy(model, source, longest, forced_end=True)]) == [single]


@pytest.mark.parametrize("search", [replace(SHORT, window=1), replace(SHORT, batch_tokens=1), replace(SHORT, window=4)])
def test_a_line_does_not_depend_on_its_neighbours(model: Translator, search: Search) -> None:
    assert texts(model, LINES, search) == texts(model, LINES)
    assert [texts(model, [line])[0] for line in LINES] == texts(model, LINES)


def test_lines_are_read_as_they_are_needed(model: Translator) -> None:
    read = []

    def endless() -> Iterator[str]:
        while True:
            read.append("a cat")
            yield "a cat"

    stream = translate(model, TOKENISER, endless(), replace(SHORT, window=2))
    next(stream)
    assert len(read) == 2
    stream.close()
    assert model.training


def test_scores_are_log_probabilities(model: Translator) -> None:
    found = list(translate(model, TOKENISER, LINES, SHORT, scores=True))
    assert [translation.text for translation in found] == texts(model, LINES)
    assert found[1].log_probability == 0
    model.eval()
    source = [*TOKENISER.encode(["two dogs"])[0], END]
    tokens = beam_search(model, source, 3, SHORT.length_penalty, SHORT.longest(len(source)), forced_end=True)
    assert tokens[0] == START
    with torch.no_grad():
        hidden = model(torch.tensor([source]), torch.tensor([tokens[:-1]]))
        log_p = model.log_probabilities(hidden)[0].gather(1, torch.tensor(tokens[1:])[:, None]).sum().item()
    assert found[0].log_probability == pytest.approx(log_p, abs=1e-4)
    assert next(iter(translate(model, TOKENISER, ["a"], SHORT))).log_probability is None


def test_what_the_model_writes_is_one_line(model: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JointBytePairs, "decode", lambda self, rows: ["a\nb\r\nc"] * len(rows))
    assert texts(model, ["dogs"]) == ["a b  c"]


def test_a_line_of_ten_thousand_words_is_translated(model: Translator) -> None:
    search = Search(beams=1, longest_ratio=0.0, longest_extra=3)
    assert len(texts(model, ["dogs " * 10_000, "cat"], search)) == 2


@pytest.mark.parametrize(
    "change",
    [{"beams": 0}, {"batch_tokens": 0}, {"window": 0}, {"longest_extra": 0}, {"length_penalty": float("nan")}],
)
def test_what_cannot_be(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        replace(SHORT, **change)


def test_hypotheses_are_best_first_and_scored(model: Translator) -> None:
    found = hypotheses(model, TOKENISER, "two dogs", SHORT)
    assert model.training, "as it was"
    assert len(found) == SHORT.beams
    assert len({tuple(tokens) for tokens, _ in found}) == SHORT.beams
    best = next(translate(model, TOKENISER, ["two dogs"], SHORT, scores=True))
    assert found[0][1].text == best.text
    assert found[0][1].log_probability == pytest.approx(best.log_probability, abs=1e-4)
    ranks = [(translation.log_probability or 0) / len(tokens) ** SHORT.length_penalty for tokens, translation in found]
    assert ranks == sorted(ranks, reverse=True)
    with pytest.raises(ValueError, match="nothing to translate"):
        hypotheses(model, TOKENISER, " \n", SHORT)
