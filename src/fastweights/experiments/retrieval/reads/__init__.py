"""How a retrieval model reads its memory, one file each."""

from fastweights.experiments.retrieval.reads.base import Pairs, Read, Reads
from fastweights.experiments.retrieval.reads.fast_weights import FastWeightRead
from fastweights.experiments.retrieval.reads.softmax import SoftmaxRead

__all__ = ["READS", "FastWeightRead", "Pairs", "Read", "Reads", "SoftmaxRead"]

READS: dict[str, type[Read]] = {"softmax": SoftmaxRead, "fast-weights": FastWeightRead}
