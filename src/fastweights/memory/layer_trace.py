"""The trace of one layer over several calls: its writes, all of them or evenly thinned, and the shape of its memory."""

from typing import NamedTuple

import torch
from torch import Tensor

from fastweights.memory.key_statistics import KeyStatistics
from fastweights.memory.packing import places
from fastweights.memory.trace import QUANTITIES, Observation, trace
from fastweights.memory.trace_table import TraceTable


class Spectrum(NamedTuple):
    """The singular values of W after a write, `b h n`, largest first."""

    write: int
    singular_values: Tensor

    @property
    def effective_rank(self) -> Tensor:
        """exp(H(σ / Σσ)): how many directions the memory uses; zero if it is empty."""
        shares = self.singular_values / self.singular_values.sum(dim=-1, keepdim=True)
        entropy = torch.special.entr(shares).sum(dim=-1)
        return torch.where(self.singular_values[..., 0] == 0, 0.0, entropy.exp())

    @property
    def stable_rank(self) -> Tensor:
        """Σσ² / max σ²; zero if the memory is empty."""
        largest = self.singular_values[..., 0].square()
        return torch.where(largest == 0, 0.0, self.singular_values.square().sum(dim=-1) / largest)


class LayerTrace:
    """`trace["landing"]` and every other of QUANTITIES as a tensor `b h t`, over all calls one after the other.

    `positions` says how many steps of its own sequence each write has before it, `b t`; `writes` which writes were
    kept, `t`.
    """

    def __init__(self, every: int = 1, limit: int | None = None, spectra_every: int | None = None) -> None:
        self.every, self.limit, self.spectra_every = every, limit, spectra_every
        self.steps, self.spectra = 0, list[Spectrum]()
        self.key_statistics = KeyStatistics()
        self._last: Tensor | None = None
        self._pieces = list[dict[str, Tensor]]()
        self._sums, self._counts = dict[str, Tensor](), dict[str, Tensor]()

    def __call__(self, observation: Observation) -> None:
        """Trace a sequence that was written."""
        writes = observation.writes.of_single_writes(observation.rule)
        count = writes.keys.shape[2]
        if not writes.keys.shape[0] * count:
            return
        wanted = [t for t in range(count) if self.spectra_every and (self.steps + t + 1) % self.spectra_every == 0]
        found, kept = trace(observation, [*wanted, count - 1])
        self._last = kept[:, :, -1]
        self.spectra += [Spectrum(self.steps + t + 1, _singular_values(kept[:, :, n])) for n, t in enumerate(wanted)]
        self.key_statistics.add(writes, fresh=not bool(observation.before.steps.any()))
        for name, x in found.items():
            real = x.isfinite()
            total, number = torch.where(real, x, 0.0).double().sum(dim=(0, 2)), real.sum(dim=(0, 2))
            self._sums[name] = self._sums[name] + total if name in self._sums else total
            self._counts[name] = self._counts[name] + number if name in self._counts else number
        self._keep(found | {"positions": _positions(observation)}, count)

    def __getitem__(self, name: str) -> Tensor:
        if name not in QUANTITIES:
            raise KeyError(f"{name}: no such quantity is traced; possible: {', '.join(QUANTITIES)}")
        return self._joined(name)

    @property
    def positions(self) -> Tensor:
        """How many steps of its own sequence each kept write has before it, `b t`."""
        return self._joined("positions")

    @property
    def writes(self) -> Tensor:
        """The numbers of the kept writes, counted over all calls."""
        return self._joined("writes")

    @property
    def final(self) -> Spectrum:
        """The singular values of the memory after the last write."""
        if self._last is None:
            raise ValueError("nothing was recorded: the layer was not called inside the `with`")
        return Spectrum(self.steps, _singular_values(self._last))

    def mean(self, name: str) -> Tensor:
        """The mean of a quantity over all writes, kept or not, for every head."""
        return self._sums[name] / self._counts[name]

    def median(self, name: str) -> Tensor:
        """The median of a quantity over the kept writes, for every head."""
        kept = torch.cat([piece[name].transpose(0, 1).flatten(1) for piece in self._pieces], dim=1)
        return kept.nanmedian(dim=1).values

    def median_balance(self) -> Tensor:
        """The median of B for every head; NaN for keys of either sign, where it means nothing."""
        found = self.median("balance")
        return torch.full_like(found, torch.nan) if self.key_statistics.signed else found

    def summary(self) -> TraceTable:
        """One row for every head."""
        ranks = self.final.effective_rank.mean(dim=0)
        columns = {name: self.mean(name) for name in QUANTITIES}
        columns |= {"median_landing": self.median("landing"), "median_balance": self.median_balance()}
        columns |= {
            "effective_rank": ranks,
            "crosstalk": self.key_statistics.crosstalk,
            "dead_features": self.key_statistics.dead,
        }
        rows = zip(*(x.tolist() for x in columns.values()), strict=True)
        return TraceTable(("head", *columns), [(head, *row) for head, row in enumerate(rows)])

    def to_table(self) -> TraceTable:
        """One row for every sequence, head and kept write that was not padding."""
        rows: list[tuple[str | int | float, ...]] = []
        for piece in self._pieces:
            columns = torch.stack([piece[name] for name in QUANTITIES], dim=-1)
            real = ~piece["value"].isnan()
            b, h, t = real.nonzero(as_tuple=True)
            places = (b.tolist(), h.tolist(), piece["positions"][b, t].tolist())
            rows += [(*place, *numbers) for *place, numbers in zip(*places, columns[real].tolist(), strict=True)]
        return TraceTable(("sequence", "head", "position", *QUANTITIES), rows)

    def _keep(self, found: dict[str, Tensor], count: int) -> None:
        found["writes"] = torch.arange(self.steps, self.steps + count)
        self.steps += count
        self._pieces.append(_thinned(found, self.every))
        while self.limit is not None and sum(len(piece["writes"]) for piece in self._pieces) > self.limit:
            self.every *= 2
            self._pieces = [_thinned(piece, self.every) for piece in self._pieces]
        self._pieces = [piece for piece in self._pieces if len(piece["writes"])]
        if len(self._pieces) > 64 and len({piece["positions"].shape[0] for piece in self._pieces}) == 1:
            # One piece for many, so that a stream of single steps is not a list of as many small tensors.
            self._pieces = [{name: self._joined(name) for name in self._pieces[0]}]

    def _joined(self, name: str) -> Tensor:
        if not self._pieces:
            raise ValueError("nothing was recorded: the layer was not called inside the `with`")
        sizes = sorted({piece["positions"].shape[0] for piece in self._pieces})
        if len(sizes) > 1 and name != "writes":
            raise ValueError(f"calls had batches of {sizes} sequences, which make no one tensor; use to_table()")
        return torch.cat([piece[name] for piece in self._pieces], dim=-1)


def _thinned(piece: dict[str, Tensor], every: int) -> dict[str, Tensor]:
    chosen = piece["writes"] % every == 0
    # A copy, so that the steps that are dropped do not stay in memory.
    return {name: x[..., chosen.to(x.device)] for name, x in piece.items()}


def _positions(observation: Observation) -> Tensor:
    writes, count = observation.writes, observation.rule.writes_per_step
    real = writes.mask
    if real is None:
        real = torch.ones(writes.keys.shape[0], writes.keys.shape[2] // count, dtype=torch.bool)
    boundaries = torch.zeros_like(real) if writes.boundaries is None else writes.boundaries
    steps = places(boundaries, real.to(boundaries.device), observation.before.steps.to(boundaries.device))
    return steps.repeat_interleave(count, dim=1)


def _singular_values(weights: Tensor) -> Tensor:
    """Of a memory that is not finite, NaN."""
    finite = weights.isfinite().all(dim=-1).all(dim=-1)
    values = torch.linalg.svdvals(weights.masked_fill(~finite[..., None, None], 0.0).float().cpu())
    return values.masked_fill(~finite.cpu()[..., None], torch.nan)
