"""How far the writes of a trained language model land, and whether they balance."""

import torch

from fastweights.data.text.cache import TokenArray
from fastweights.files import Json
from fastweights.memory import record
from fastweights.models.language_model import LanguageModel
from fastweights.runs.record import rounded

SEQUENCES, LENGTH, EARLY = 4, 512, 128
"""Stretches of the validation text whose writes are traced; the first words of each come before its memory is full."""


def measured_writes(model: LanguageModel, tokens: TokenArray) -> Json:
    """Medians of λ and B over all layers and heads; null where they mean nothing."""
    length = min(LENGTH, len(tokens) // SEQUENCES)
    rows = torch.from_numpy(tokens[: SEQUENCES * length].astype("int64")).view(SEQUENCES, length)
    model.eval()
    with torch.inference_mode(), record(model) as seen:
        model(rows.to(next(model.parameters()).device))

    def median(name: str, means_something: bool) -> float | None:
        values = [trace[name][..., min(EARLY, length - 1) :].flatten() for trace in seen.values()]
        finite = torch.cat(values)
        finite = finite[finite.isfinite()]
        return rounded(finite.median().item()) if len(finite) and means_something else None

    signed = any(trace.key_statistics.signed for trace in seen.values())
    return {"landing": median("landing", True), "balance": median("balance", not signed)}
