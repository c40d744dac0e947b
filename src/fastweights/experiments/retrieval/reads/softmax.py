"""Softmax attention to the pairs: the read of a memory that keeps every one of them (Sec. 6.1)."""

import math
from dataclasses import dataclass

from typing_extensions import override

from fastweights.experiments.retrieval.reads.base import Pairs, Questions, Read, Reads
from fastweights.shapes import Projection


@dataclass(frozen=True)
class SoftmaxRead(Read):
    """y = Σ_t w_t v_t  with  w = softmax_t(k_t·q / √d): a memory that keeps every pair."""

    @override
    def read(self, pairs: Pairs, queries: Questions, projection: Projection | None = None) -> Reads:
        scores = pairs.keys @ queries.mT / math.sqrt(queries.shape[-1])
        return pairs.weighted_values(scores.softmax(dim=1))
