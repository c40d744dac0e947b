"""The runs of the toy task."""

from fastweights.training.config import TrainingConfig
from fastweights.training.run import Run
from fastweights.training.stopping import Stopping
from toy_family.config import FitConfig


def preset(name: str, model: str | None = None, rule: str | None = None, points: int = 50, seed: int = 1) -> Run:
    """Fit a line to so many points."""
    if model or rule:
        raise ValueError(f"{name}: there is one model and no rule")
    training = TrainingConfig(
        steps=400,
        batch_size=8,
        learning_rate=0.05,
        schedule="constant",
        warmup_steps=0,
        clip_norm=None,
        log_every=None,
        evaluate_every=50,
        seed=seed,
    )
    return Run(FitConfig(points), training, Stopping(patience=100), preset=name)
