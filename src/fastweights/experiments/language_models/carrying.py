"""How long a memory is carried in training, and by which weights it was written (Sec. 6.3, Table 4)."""

import torch
from jaxtyping import Bool
from torch import Tensor

from fastweights.data.text.segments import Tokens
from fastweights.experiments.language_models.config import Carrying
from fastweights.models.language_model import LanguageModel
from fastweights.training.carried_state import States
from fastweights.training.random_numbers import seed_for


def begins_anew(carrying: Carrying, place: int) -> bool:
    """True if the memories of all columns are empty before segment `place` of an epoch."""
    return place == 0 or (carrying.reset_every > 0 and place % carrying.reset_every == 0)


def reset_columns(carrying: Carrying, seed: int, step: int, columns: int) -> Bool[Tensor, "c"]:
    """Which columns are reset by chance before a step: a function of (seed, step), like everything in training."""
    generator = torch.Generator().manual_seed(seed_for("resets", seed, step))
    return torch.rand(columns, generator=generator) < carrying.reset_chance


def reset_rows(states: States, empty: States, rows: Bool[Tensor, "b"]) -> States:
    """The states with those of some rows replaced by empty ones."""

    def chosen(before: Tensor, nothing: Tensor) -> Tensor:
        return torch.where(
            rows.to(before.device, non_blocking=True).view(-1, *[1] * (before.dim() - 1)), nothing, before
        )

    return [
        type(state).from_tensors({name: chosen(x, none.tensors()[name]) for name, x in state.tensors().items()})
        for state, none in zip(states, empty, strict=True)
    ]


def rewritten(model: LanguageModel, tokens: Tokens) -> States:
    """The memories after some tokens, written by the weights of now; no gradient goes back there."""
    with torch.no_grad():
        _, states = model(tokens)
    return states
