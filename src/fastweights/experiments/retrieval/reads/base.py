"""What is read from a written sequence of pairs with one-hot values (Sec. 6.1).

Every read is y = Σ_t w_t v_t, and the models differ in the weights w alone. So W is not built where another way is
cheaper: under the sum rule w_t = φ(k_t)·φ(q), under the delta rule w comes from walking back from the query.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from fastweights.shapes import Gates, Projection

Questions = Float[Tensor, "b q d"]
Reads = Float[Tensor, "b q v"]


class Pairs(NamedTuple):
    """A written sequence: keys before the feature map, which value each has, and the gates of the rule by name.

    The gates have a dimension for their one head, as those of a layer have for all of theirs.
    """

    keys: Float[Tensor, "b t d"]
    values: Int[Tensor, "b t"]
    gates: Gates
    num_values: int

    def weighted_values(self, weights: Float[Tensor, "b t q"]) -> Reads:
        """y = Σ_t w_t v_t: as values are one-hot, the sum of the weights of each value."""
        batch, _, queries = weights.shape
        rows = self.values + self.num_values * torch.arange(batch)[:, None]
        sums = weights.new_zeros(batch * self.num_values, queries)
        return sums.index_add(0, rows.flatten(), weights.flatten(0, 1)).unflatten(0, (batch, -1)).mT

    def one_hot_values(self) -> Float[Tensor, "b t v"]:
        """The values as the vectors they stand for."""
        return one_hot(self.values, self.num_values).to(self.keys.dtype)


@dataclass(frozen=True)
class Read(ABC):
    """y from a sequence of pairs and a query."""

    @abstractmethod
    def read(self, pairs: Pairs, queries: Questions, projection: Projection | None = None) -> Reads:
        """The value retrieved for each query once all pairs are written; `projection` is for random maps."""
