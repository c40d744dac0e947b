"""How the keys of a layer share the memory: crosstalk between them, and features that none of them uses."""

import torch
from torch import Tensor

from fastweights.memory.write_inputs import WriteInputs

DEAD = 0.01
"""A feature is dead if its mean magnitude is below this share of the mean over all features."""


class KeyStatistics:
    """Sums over all keys of a layer, of constant size, for any number of calls."""

    def __init__(self) -> None:
        self.signed = False
        """Whether keys had features of either sign, for which a balance of their sums means nothing."""
        self._usage: Tensor | None = None
        self._directions: Tensor | None = None
        self._counts: Tensor | None = None
        self._pairs: Tensor | None = None
        self._cosines: Tensor | None = None

    def add(self, writes: WriteInputs, *, fresh: bool) -> None:
        """Count the keys of a sequence; `fresh` if it continues none that was counted before."""
        keys = writes.without_padding().keys.detach()
        keys = keys.to(torch.promote_types(keys.dtype, torch.float32))
        signed = bool((keys.amin() if keys.numel() else keys.sum()) < 0)
        self.signed = self.signed or signed
        size = torch.linalg.vector_norm(keys, dim=-1)
        lengths = torch.where(size > 0, 1 / size, 0.0)
        # Sums over steps as products with a row, which builds no second tensor of the size of the keys.
        usage = (torch.ones_like(lengths)[:, :, None] @ (keys.abs() if signed else keys)).squeeze(2).double().sum(dim=0)
        directions = (lengths[:, :, None] @ keys).squeeze(2).double()
        counts = (size > 0).sum(dim=2)
        self._usage = usage if self._usage is None else self._usage + usage
        continues = not fresh and self._directions is not None and self._directions.shape == directions.shape
        if not continues:
            self._close()
            self._directions, self._counts = directions, counts
        else:
            assert self._directions is not None
            assert self._counts is not None
            self._directions, self._counts = self._directions + directions, self._counts + counts

    @property
    def crosstalk(self) -> Tensor:
        """The mean cosine of two different keys of one sequence, by head: (|Σ k̂|² - n) / (n (n - 1))."""
        cosines, pairs = self._totals()
        return cosines / pairs

    @property
    def dead(self) -> Tensor:
        """The share of dead features, by head."""
        if self._usage is None:
            raise ValueError("nothing was recorded: the layer was not called inside the `with`")
        return (self._usage < DEAD * self._usage.mean(dim=-1, keepdim=True)).double().mean(dim=-1)

    def _totals(self) -> tuple[Tensor, Tensor]:
        if self._directions is None or self._counts is None:
            raise ValueError("nothing was recorded: the layer was not called inside the `with`")
        counts = self._counts.double()
        cosines = (self._directions.square().sum(dim=-1) - counts).sum(dim=0)
        pairs = (counts * (counts - 1)).sum(dim=0)
        if self._pairs is None or self._cosines is None:
            return cosines, pairs
        return self._cosines + cosines, self._pairs + pairs

    def _close(self) -> None:
        """Fold the sequences that have ended into the totals."""
        if self._directions is not None:
            self._cosines, self._pairs = self._totals()
