"""Greedy and beam search straight from their definitions, without cache or batch: what `generate` has to agree with."""

import torch
from torch import Tensor

from fastweights.data.translation_tokeniser import END, START
from fastweights.models.translator import Translator

Hypothesis = tuple[float, list[int]]


@torch.no_grad()
def next_log_probabilities(model: Translator, source: list[int], hypothesis: list[int]) -> Tensor:
    """log p of every next token, from whole sequences."""
    hidden = model(torch.tensor([source]), torch.tensor([hypothesis]))
    return model.log_probabilities(hidden)[0, -1]


def greedy(model: Translator, source: list[int], longest: int, forced_end: bool = False) -> list[int]:
    """The likeliest token at every step, from `<s>` to `</s>`, which may be forced to be the last one."""
    hypothesis = [START]
    while len(hypothesis) <= longest and hypothesis[-1] != END:
        forced = forced_end and len(hypothesis) == longest
        hypothesis.append(END if forced else int(next_log_probabilities(model, source, hypothesis).argmax()))
    return hypothesis


def beam_search(
    model: Translator, source: list[int], beams: int, penalty: float, longest: int, forced_end: bool = False
) -> list[int]:
    """The best hypothesis by log p / length^penalty; the end is where no running one beats the worst finished one.

    Twice as many continuations as beams are ranked; one that ends counts if it is among the first half.
    """
    running: list[Hypothesis] = [(0.0, [START])]
    finished: list[Hypothesis] = []
    for length in range(1, longest + 1):
        continuations = _continuations(model, source, running)
        if forced_end and length == longest:
            continuations = [hypothesis for hypothesis in continuations if hypothesis[1][-1] == END]
        ranked = sorted(continuations, reverse=True)[: 2 * beams]
        ended = [tokens[-1] == END or length == longest for _, tokens in ranked]
        for (log_p, tokens), ends in zip(ranked[:beams], ended[:beams], strict=True):
            if ends:
                finished.append((log_p / length**penalty, tokens))
        running = [hypothesis for hypothesis, ends in zip(ranked, ended, strict=True) if not ends][:beams]
        finished = sorted(finished, reverse=True)[:beams]
        if not running or (len(finished) == beams and running[0][0] / length**penalty <= finished[-1][0]):
            break
    return finished[0][1]


def _continuations(model: Translator, source: list[int], running: list[Hypothesis]) -> list[Hypothesis]:
    return [
        (log_p + value, [*tokens, word])
        for log_p, tokens in running
        for word, value in enumerate(next_log_probabilities(model, source, tokens).tolist())
    ]
