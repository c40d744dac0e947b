"""Training a memory to overwrite, and tracing what its writes do: under new keys, under keys that come again."""

from pathlib import Path

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from typing_extensions import override

from fastweights.data.retrieval import EVALUATION_FEATURES, RetrievalProblem, torch_generator
from fastweights.experiments.contrast.config import ContrastConfig
from fastweights.experiments.retrieval.model import RetrievalModel, retrieval_loss
from fastweights.experiments.retrieval.task import RetrievalTask
from fastweights.files import Json
from fastweights.memory import QUANTITIES, Recording, record
from fastweights.runs.display import Display
from fastweights.runs.record import rounded
from fastweights.training.config import TrainingConfig
from fastweights.training.execute import load_model_of

SEQUENCES = 100
"""Fresh sequences that are traced, and evaluated at every length."""
SHARES = (0.25, 0.5, 0.75)
"""Quantiles that are recorded beside the mean, which a few tiny z·k can dominate."""
MEASURED_AT = 10**9
"""A step that no training reaches: the sequences that are traced are those of no evaluation."""


class ContrastTask(RetrievalTask):
    """½ |v* - v̂|² as in the overwriting task; then the writes of the trained memory."""

    def __init__(self, config: ContrastConfig, training: TrainingConfig) -> None:
        super().__init__(config.retrieval, training)
        self.longest = config.longest

    @override
    def measure(self, folder: Path, device: torch.device, display: Display) -> Json:
        model = self.build()
        load_model_of(folder, model, "newest")
        return self.measure_model(model)

    @torch.no_grad()
    def measure_model(self, model: RetrievalModel) -> Json:
        """Statistics of the writes under new and repeated keys, λ and B by step, the loss by length, and crosstalk."""
        keys, seen = self._traced(model, self.problem.length)
        kinds = {"new": first_occurrences(keys), "repeated": ~first_occurrences(keys)}
        return {
            "writes": {kind: statistics(seen, chosen) for kind, chosen in kinds.items()},
            "by_step": self._by_step(model),
            "by_length": {str(length): rounded(self._loss(model, length)) for length in self.lengths},
            "crosstalk": rounded(self._crosstalk(model)),
        }

    @property
    def lengths(self) -> list[int]:
        """S, 2S, 4S, … up to the longest."""
        found = [self.problem.num_keys]
        while 2 * found[-1] <= self.longest:
            found.append(2 * found[-1])
        return found

    def _traced(self, model: RetrievalModel, length: int) -> tuple[Int[Tensor, "b t"], Recording]:
        batch = self.problem.evaluation(SEQUENCES, length, 1, seed=self.training.seed, step=MEASURED_AT)
        with record(model) as seen:
            model(*batch[:3], self._features(model))
        return batch.keys, seen

    def _by_step(self, model: RetrievalModel) -> Json:
        """Medians of λ and B for steps 1, 2, 3-4, 5-8, … of long sequences."""
        _, seen = self._traced(model, self.longest)
        last, columns = 0, dict[str, list[float]](step=[], landing=[], balance=[])
        while last < self.longest:
            first, last = last, min(max(2 * last, 1), self.longest)
            columns["step"].append(last)
            for name in ("landing", "balance"):
                columns[name].append(rounded(seen[""][name][:, 0, first:last].nanmedian().item()))
        return columns

    def _loss(self, model: RetrievalModel, length: int) -> float:
        """Every key that occurs is asked for, in sequences of another length than those of the training."""
        batch = self.problem.evaluation(SEQUENCES, length, seed=self.training.seed, step=MEASURED_AT + length)
        losses = retrieval_loss(model(*batch[:3], self._features(model)), batch.targets)
        return losses[batch.query_mask].mean().item()

    def _crosstalk(self, model: RetrievalModel) -> float:
        """The mean cosine of the keys of different symbols: of sequences in which none comes twice."""
        problem = RetrievalProblem("capacity", self.problem.num_keys)
        batch = problem.evaluation(SEQUENCES, problem.length, 1, seed=self.training.seed, step=MEASURED_AT)
        with record(model) as seen:
            model(*batch[:3], self._features(model))
        return float(seen[""].key_statistics.crosstalk.item())

    def _features(self, model: RetrievalModel) -> Tensor | None:
        return model.draw_features(torch_generator(self.training.seed, EVALUATION_FEATURES))


def first_occurrences(keys: Int[Tensor, "b t"]) -> Bool[Tensor, "b t"]:
    """True where a key comes for the first time in its sequence."""
    same = (keys[:, :, None] == keys[:, None, :]).tril(-1)
    return ~same.any(dim=2)


def statistics(seen: Recording, chosen: Bool[Tensor, "b t"]) -> Json:
    """Mean and quartiles of every quantity that is defined, over the chosen writes."""
    found = {}
    for name in QUANTITIES:
        numbers = seen[""][name][:, 0][chosen]
        numbers = numbers[numbers.isfinite()].double()
        if len(numbers):
            quartiles = torch.quantile(numbers, torch.tensor(SHARES, dtype=torch.float64)).tolist()
            found[name] = {"mean": numbers.mean().item(), "quartiles": [rounded(x) for x in quartiles]}
    return dict(rounded(found))
