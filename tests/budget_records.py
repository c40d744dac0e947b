"""Records of language models on two texts that were never trained."""

import math
from dataclasses import replace
from typing import Any

from fastweights.experiments.language_models import budget
from fastweights.experiments.language_models.presets import PRESETS, for_text, words_of
from fastweights.runs.record import Record
from fastweights.training.run import Run


def run_of(preset: str, seed: int = 1111, rate: float | None = None) -> Run:
    size = "cpu-long" if preset.startswith("cpu-long-") else "cpu"
    run = for_text(PRESETS[preset], words_of(size), "digest")
    run = replace(run, training=replace(run.training, seed=seed))
    return run if rate is None else budget.with_rate(run, rate)


def record(test: float, seconds: float = 3600.0, losses: tuple[float, ...] = (), **more: Any) -> Record:
    scores = {split: {"loss": math.log(test), "tokens": 10, "context": ""} for split in ("valid", "test")}
    curve: dict[str, list[float | None]] = {
        "step": [100.0 * (1 + n) for n in range(len(losses))],
        "valid_loss": list(losses),
    }
    result = {"best_loss": 1.0, "steps": 1, "core_seconds": seconds, "parameters": 1000, **scores, **more}
    return Record({}, result, curve if losses else {}, {})
