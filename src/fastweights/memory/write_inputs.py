"""The inputs of the writes of a sequence: keys, values, gates, and which steps are padding or begin a sequence."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fastweights.memory.state import NO_SCALE
from fastweights.shapes import Keys, Mask, PerStep, Values
from fastweights.update_rules import UpdateRule


class WriteInputs(NamedTuple):
    """The writes of a sequence: mapped and normalised keys, values, and the gates of the rule by name.

    `mask` is true for real steps; a padded step changes nothing. Where `log_scales` are given, each key stands for
    exp(s_t) times itself (docs/math.md#stabilised-favor). `boundaries` are true at the first step of every sequence
    that is packed into a row: the memory is reset before it. Of a rule with n writes per step, keys, values and the
    gates of each write come one after the other, n for every step of the mask.
    """

    keys: Keys
    values: Values
    gates: Mapping[str, Tensor]
    mask: Mask | None = None
    log_scales: PerStep | None = None
    boundaries: Mask | None = None

    def of_single_writes(self, rule: UpdateRule) -> "WriteInputs":
        """The same inputs with gates, mask and boundaries for every write instead of every step."""
        count = rule.writes_per_step
        if count == 1:
            return self
        mask = None if self.mask is None else self.mask.repeat_interleave(count, dim=1)
        begins = None if self.boundaries is None else pad(self.boundaries[..., None], (0, count - 1)).flatten(1)
        return self._replace(gates=rule.gates_per_write(self.gates), mask=mask, boundaries=begins)

    def without_padding(self) -> "WriteInputs":
        """The same inputs with everything of the padded steps, NaN included, replaced by zero."""
        if self.mask is None:
            return self
        scales = self.log_scales
        return WriteInputs(
            fill_padding(self.keys, self.mask, 0.0),
            fill_padding(self.values, self.mask, 0.0),
            {name: fill_padding(gate, self.mask, 0.0) for name, gate in self.gates.items()},
            self.mask,
            None if scales is None else fill_padding(scales, self.mask, NO_SCALE),
            self.boundaries,
        )

    def to(self, dtype: torch.dtype) -> "WriteInputs":
        """The same keys, values and gates in another precision."""
        gates = {name: gate.to(dtype) for name, gate in self.gates.items()}
        return self._replace(keys=self.keys.to(dtype), values=self.values.to(dtype), gates=gates)


def fill_padding(x: Tensor, mask: Mask, value: float) -> Tensor:
    """A `b h t` or `b h t ·` tensor with `value` in its padded steps."""
    return x.masked_fill(like(~mask[:, None, :], x), value)


def like(per_step: Tensor, x: Tensor) -> Tensor:
    """One number per step, with a last dimension if `x` has one."""
    return per_step[..., None] if x.dim() == 4 else per_step
