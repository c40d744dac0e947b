"""A short sweep of learning rates: which one the Transformer likes, and which one the delta rule."""

import math
from collections.abc import Mapping
from dataclasses import replace

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.perplexities import shown
from fastweights.experiments.language_models.presets import PRESETS, for_text, model_of, size_of, words_of
from fastweights.experiments.language_models.tables import Table, on_text
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.training.run import Run

SIZE = "cpu-long"
TITLE = "Rates: one learning rate for all favours whoever likes it"
TEXT = (
    "Short trainings of the Transformer and of the delta rule with several learning rates, everything else as in the "
    "long ones, which are made with the best rate: both models have the same."
)
ARGUMENTS = " --data europarl-en --jobs 2"
MODELS = {"transformer": "Transformer", "linear-delta": "Linear, delta rule"}
RATES = (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3)
STEPS = 400


def runs(options: ReproduceOptions) -> list[Run]:
    """Both models with every rate."""
    if options.quick or options.seeds or options.scale != "cpu":
        raise ValueError("learning rates are compared at one size, with one seed and one length of training")
    prepared = on_text([f"{SIZE}-{name}" for name in MODELS], options)
    return [shortened(run, rate) for run in prepared for rate in RATES]


def shortened(run: Run, rate: float) -> Run:
    """A short training with this learning rate, whose schedule ends with it."""
    assert isinstance(run.task, LanguageModellingConfig)
    warmup = min(run.training.warmup_steps, STEPS // 4)
    training = replace(run.training, steps=STEPS, warmup_steps=warmup, learning_rate=rate, evaluate_every=STEPS)
    return replace(run, task=replace(run.task, test_stride=run.task.segment_length), training=training)


def found_losses(records: Records) -> dict[str, dict[float, float]]:
    """The validation loss of each model by its learning rate; infinite if it was not finite."""
    found: dict[str, dict[float, float]] = {}
    for run, record in records.items():
        if is_swept(run):
            loss = record.result["best_loss"]
            found.setdefault(model_of(run), {})[run.training.learning_rate] = math.inf if loss is None else loss
    return found


def is_swept(run: Run) -> bool:
    """True for the runs of the sweep."""
    rate = run.training.learning_rate
    if size_of(run) != SIZE or model_of(run) not in MODELS or rate not in RATES:
        return False
    assert isinstance(run.task, LanguageModellingConfig)
    return run == shortened(for_text(PRESETS[run.preset], words_of(SIZE), run.task.text), rate)


def best_rates(losses: Mapping[str, Mapping[float, float]]) -> dict[str, float]:
    """The learning rate with the lowest loss, of each model that was run with all of them."""
    return {
        name: min(rates, key=lambda rate: rates[rate]) for name, rates in losses.items() if len(rates) == len(RATES)
    }


def coverage(records: Records) -> Coverage:
    """How many of the short trainings have a record."""
    return Coverage([record for run, record in records.items() if is_swept(run)], len(MODELS) * len(RATES))


def contents(records: Records) -> tuple[Table, ...]:
    """Perplexities by learning rate, and the best rate of each model."""
    losses = found_losses(records)
    best = best_rates(losses)
    rows = [
        (
            label,
            *(shown(perplexity_of(losses[name][rate])) if rate in losses[name] else "–" for rate in RATES),
            f"{best[name]:g}" if name in best else "–",
        )
        for name, label in MODELS.items()
        if name in losses
    ]
    caption = f"Validation perplexity on Europarl after {STEPS} steps, independent segments."
    return (Table("learning-rates", caption, ("model", *(f"{rate:g}" for rate in RATES), "best"), tuple(rows)),)
