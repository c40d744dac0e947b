"""How the keys of a layer share the memory: crosstalk between them, and features that none of them uses."""

import torch
from torch import Tensor

from fastweights.memory.write_inputs import WriteInputs
from fastweights.shapes import Mask

DEAD = 0.01
"""A feature is dead if its mean magnitude is below this share of the mean over all features."""


class KeyStatistics:
    """Sums over all keys of a layer, of constant size, for any number of calls."""

    def __init__(self) -> None:
        self.signed = False
        """Whether keys had features of either sign, for which a balance of their sums means nothing."""
        self._usage: Tensor | None = None
        self._directions = self._counts = torch.zeros(0)
        """Σ k̂ and the number of keys, by row and head, of the sequence that each row is in."""
        self._cosines = self._pairs = torch.zeros(())
        """Sums over the sequences that have ended, by head."""

    def add(self, writes: WriteInputs, *, fresh: bool) -> None:
        """Count the keys of a sequence, or of several packed ones; `fresh` if it continues none counted before."""
        keys = writes.without_padding().keys.detach()
        keys = keys.to(torch.promote_types(keys.dtype, torch.float32))
        signed = bool((keys.amin() if keys.numel() else keys.sum()) < 0)
        self.signed = self.signed or signed
        size = torch.linalg.vector_norm(keys, dim=-1)
        lengths = torch.where(size > 0, 1 / size, 0.0)
        # Sums over steps as products with a row, which builds no second tensor of the size of the keys.
        usage = (torch.ones_like(lengths)[:, :, None] @ (keys.abs() if signed else keys)).squeeze(2).double().sum(dim=0)
        self._usage = usage if self._usage is None else self._usage + usage
        batch, heads, _, features = keys.shape
        if fresh or self._directions.shape != (batch, heads, features):
            self._cosines, self._pairs = self._totals()
            self._directions = keys.new_zeros(batch, heads, features, dtype=torch.float64)
            self._counts = keys.new_zeros(batch, heads, dtype=torch.float64)
        for number, inside in enumerate(_sequences(writes.boundaries)):
            if number > 0:
                self._end(inside.any(dim=-1))
            # Not in place: what was counted in inference mode may not be changed outside it.
            self._directions = self._directions + (torch.where(inside, lengths, 0.0)[:, :, None] @ keys).squeeze(2)
            self._counts = self._counts + (inside & (size > 0)).sum(dim=2)

    @property
    def crosstalk(self) -> Tensor:
        """The mean cosine of two keys of one sequence, by head: (|Σ k̂|² - n) / (n (n - 1)); NaN of a single key."""
        self._check()
        cosines, pairs = self._totals()
        return torch.where(pairs > 0, cosines / pairs, torch.nan)

    @property
    def dead(self) -> Tensor:
        """The share of dead features, by head."""
        usage = self._check()
        return (usage < DEAD * usage.mean(dim=-1, keepdim=True)).double().mean(dim=-1)

    def _check(self) -> Tensor:
        if self._usage is None:
            raise ValueError("nothing was recorded: the layer was not called inside the `with`")
        return self._usage

    def _totals(self) -> tuple[Tensor, Tensor]:
        cosines, pairs = self._open()
        return self._cosines + cosines.sum(dim=0), self._pairs + pairs.sum(dim=0)

    def _open(self) -> tuple[Tensor, Tensor]:
        """Sums of cosines and numbers of pairs, by row and head, of the sequences that have not ended."""
        return self._directions.square().sum(dim=-1) - self._counts, self._counts * (self._counts - 1)

    def _end(self, rows: Tensor) -> None:
        """Fold the sequences of these rows, b 1, into the totals."""
        cosines, pairs = (torch.where(rows, x, 0.0).sum(dim=0) for x in self._open())
        self._cosines, self._pairs = self._cosines + cosines, self._pairs + pairs
        self._directions, self._counts = self._directions * ~rows[..., None], self._counts * ~rows


def _sequences(boundaries: Mask | None) -> list[Tensor]:
    """The steps of each sequence that is packed into a row, b 1 t; all steps if rows are not packed."""
    if boundaries is None:
        return [torch.ones((), dtype=torch.bool)]
    number = boundaries.cumsum(dim=1)[:, None]
    return [number == one for one in range(int(number.amax()) + 1)] if number.numel() else []
