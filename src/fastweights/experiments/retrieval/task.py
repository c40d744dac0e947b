"""Training a retrieval model: batches, loss, and the evaluation by every protocol (Sec. 6.1)."""

from collections.abc import Sequence

from torch import Tensor, nn
from typing_extensions import override

from fastweights.data.retrieval import FEATURES, INITIALISATION, RetrievalBatch, RetrievalProblem, torch_generator
from fastweights.experiments.retrieval.config import RetrievalConfig
from fastweights.experiments.retrieval.evaluation import PROTOCOLS, evaluate
from fastweights.experiments.retrieval.model import RetrievalModel, draw_features, retrieval_loss
from fastweights.files import Json
from fastweights.shapes import Projection
from fastweights.training.carried_state import States
from fastweights.training.config import TrainingConfig
from fastweights.training.task import Evaluation, Interrupted, Share, Task


class RetrievalTask(Task[tuple[RetrievalBatch, Projection | None]]):
    """½ |v* - v̂|² of one question per sequence; every batch is a pure function of (seed, step)."""

    def __init__(self, config: RetrievalConfig, training: TrainingConfig) -> None:
        self.config, self.training = config, training
        self.problem = RetrievalProblem(config.setting, config.num_keys)

    @override
    def build(self) -> RetrievalModel:
        config = self.config
        generator = torch_generator(self.training.seed, INITIALISATION)
        return RetrievalModel(config.num_keys, config.attention, config.key_dim, generator)

    @override
    def batch(self, step: int, share: Share) -> tuple[RetrievalBatch, Projection | None]:
        seed, batch_size = self.training.seed, self.training.batch_size
        batch = self.problem.batch(batch_size, seed=seed, step=step + 1)
        if share.parts > 1:
            batch = RetrievalBatch(*(x[share.of(batch_size)] for x in batch))
        generator = torch_generator(seed, FEATURES, step + 1)
        return batch, draw_features(self.config.attention, self.config.key_dim, generator)

    @override
    def loss(
        self, model: nn.Module, batch: tuple[RetrievalBatch, Projection | None], states: States | None
    ) -> tuple[Tensor, States | None]:
        pairs, features = batch
        return retrieval_loss(model(*pairs[:3], features), pairs.targets).mean(), None

    @override
    def evaluate(self, model: nn.Module, step: int, interrupted: Interrupted) -> Evaluation:
        assert isinstance(model, RetrievalModel)
        protocols = PROTOCOLS | {"loss": self.config.protocol}
        known = [name for name, protocol in PROTOCOLS.items() if protocol == self.config.protocol]
        chunk_size, seed = self.training.batch_size, self.training.seed
        losses = {
            name: evaluate(model, self.problem, protocol, chunk_size=chunk_size, seed=seed, step=step)
            for name, protocol in protocols.items()
            if name != "loss" or not known
        }
        loss = losses[known[0] if known else "loss"]
        return Evaluation(loss, {"loss": loss} | losses)

    @override
    def metric_names(self) -> tuple[str, ...]:
        return ("loss", *PROTOCOLS)

    @override
    def summary(self, evaluations: Sequence[Json]) -> Json:
        """The last loss of the evaluation, and the best and the last of each protocol."""
        return {
            "last_loss": evaluations[-1].get("loss") if evaluations else None,
            "protocols": {name: _best(name, evaluations) for name in PROTOCOLS},
        }


def _best(name: str, evaluations: Sequence[Json]) -> Json:
    """The least of a curve and the first step that reached it; a loss that is null or absent is never least."""
    finite = [(row[name], row["step"]) for row in evaluations if row.get(name) is not None]
    loss, step = min(finite, default=(None, None))
    return {"best_loss": loss, "best_step": step, "last_loss": evaluations[-1].get(name) if evaluations else None}
