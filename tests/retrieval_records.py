"""Records of retrieval runs as if they had been made: with any loss, or with the losses that were published."""

from fastweights.experiments.families import codec
from fastweights.experiments.retrieval import figure2, figure3, figure4, figure5
from fastweights.experiments.retrieval.config import RetrievalConfig
from fastweights.experiments.retrieval.names import model_and_rule
from fastweights.experiments.retrieval.outcomes import published
from fastweights.runs.record import Record
from fastweights.training.run import Run


def task_of(run: Run) -> RetrievalConfig:
    """The task of a retrieval run."""
    assert isinstance(run.task, RetrievalConfig)
    return run.task


def record(run: Run, loss: float | None = 0.25, text: float = 0.5) -> Record:
    """What a run that ended with these losses would have left."""
    protocols = {"text": {"best_loss": text}, "published": {"best_loss": loss}}
    result = {"best_loss": loss, "last_loss": loss, "steps": 200, "stopped_because": "patience", "seconds": 7.5}
    curve = {"step": [100, 200], "loss": [0.5, loss]}
    return Record(codec().to_plain(run), {**result, "protocols": protocols}, curve, {})


def records_as_published() -> dict[Run, Record]:
    """Records of every run of the figures for which there is a published one, with its loss."""
    records = {}
    for run in (run for module in (figure2, figure3, figure4, figure5) for run in module.runs()):
        names = model_and_rule(task_of(run).attention)
        assert names is not None
        known = published().where(task_of(run).setting, *names, num_keys=task_of(run).num_keys)
        if known and known.all[0].best == known.all[0].best:
            records[run] = record(run, known.all[0].best)
    return records
