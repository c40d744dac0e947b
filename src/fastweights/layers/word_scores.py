"""log p of words whose clusters are evaluated only when somebody has to know them."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

Scores = Float[Tensor, " words"]


def refuse_what_is_not_finite(scores: Scores) -> None:
    """Raise a FloatingPointError if no probabilities can be made of log p, up to a factor."""
    if not scores.logsumexp(dim=0).isfinite():
        raise FloatingPointError("the model's probabilities are not finite, so no word can be drawn")


class WordScores:
    """log p(w) of frequent words, log p(c) of clusters, and log p(w) = log p(c) + log p(w | c) of a cluster's words.

    No word of a cluster is likelier than the cluster, so most words can be drawn, and the likeliest be found, without
    looking into any. `head` are the frequent words and then the clusters; `bounds` the first word of each cluster and
    the number of all words; `within(number)` gives log p(w | c) for the words of a cluster.
    """

    _known: dict[int, Scores]

    def __init__(
        self, head: Scores, bounds: tuple[int, ...] = (), within: Callable[[int], Scores] | None = None
    ) -> None:
        refuse_what_is_not_finite(head)
        self.head, self.bounds = head, bounds or (len(head),)
        self.frequent, self.clusters = head[: self.bounds[0]], head[self.bounds[0] :].tolist()
        self._within, self._known = within, {}

    @property
    def unknown(self) -> list[int]:
        """The clusters that were not evaluated yet, the likeliest first."""
        numbers = [number for number in range(len(self.clusters)) if number not in self._known]
        return sorted(numbers, key=lambda number: -self.clusters[number])

    def size(self, number: int) -> int:
        """How many words a cluster has."""
        return self.bounds[number + 1] - self.bounds[number]

    def words_of(self, number: int) -> Scores:
        """log p of the words of a cluster."""
        if number not in self._known:
            assert self._within is not None
            self._known[number] = self._within(number) + self.clusters[number]
            refuse_what_is_not_finite(self._known[number])
        return self._known[number]

    def evaluate(self, above: float) -> bool:
        """Evaluate the likeliest unknown cluster if it may hold a word above this log p; False if none may."""
        candidates = self.unknown
        if not candidates or self.clusters[candidates[0]] <= above:
            return False
        self.words_of(candidates[0])
        return True

    def known(self) -> tuple[Scores, Tensor]:
        """log p of all words evaluated so far, and which words they are, in their order."""
        parts = [(0, self.frequent), *((self.bounds[number], self._known[number]) for number in sorted(self._known))]
        words = [torch.arange(first, first + len(scores)) for first, scores in parts]
        return torch.cat([scores for _, scores in parts]), torch.cat(words)

    def of_likeliest(self, count: int) -> Scores:
        """log p of every word, or -∞ for words that are not among the `count` likeliest (all equal ones count)."""
        while True:
            known, words = self.known()
            least = float(known.topk(count).values[-1]) if len(known) >= count else -math.inf
            if not self.evaluate(above=math.nextafter(least, -math.inf)):
                break
        scores = known.new_full((self.bounds[-1],), -math.inf)
        scores[words] = known
        return scores

    def likeliest(self) -> int:
        """argmax p(w), the first of several."""
        while True:
            scores, words = self.known() if self._known else (self.frequent, None)
            best = int(scores.argmax())
            if not self.evaluate(above=float(scores[best])):
                return best if words is None else int(words[best])
