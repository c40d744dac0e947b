"""Pictures in a memory that nothing has trained, with digits that are drawn here: which writes land?"""

from functools import cache

import torch

from fastweights.data.images import drawn_digits
from fastweights.experiments.contenders import CONTENDERS
from fastweights.experiments.images.image_memory import SHOWN, measure_memory
from fastweights.experiments.series import CONTENDER_SERIES
from fastweights.files import Json
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.runs.display import number

MODELS = ("sum", "delta", "delta-l2", "delta-centred")
KEYS, WRITES = SHOWN[0], SHOWN[0] * SHOWN[1]
COUNT = 200
"""Digits to choose from."""
TITLE = "Which writes land"
TEXT = (
    f"{WRITES} pictures of 784 pixels are written under {KEYS} random keys; nothing has been trained. "
    "A write lands if its key retrieves afterwards what was written. Keys that are divided by their sum are "
    "short, so that their writes land in part; keys of length one replace what was there in full."
)


@cache
def measured(seed: int = 0) -> dict[str, Json]:
    """Retrieval errors of each memory for the same pictures under the same keys."""
    pictures = torch.from_numpy(drawn_digits(COUNT, seed).pixels)
    found = {}
    for model in MODELS:
        attention = CONTENDERS[model]
        assert isinstance(attention, FastWeightAttentionConfig)
        found[model] = measure_memory(attention, pictures, seed, sizes=(KEYS,))
    return found


def rows() -> list[tuple[str, ...]]:
    """For each memory the error of what it retrieves when every key was written once, twice, and eight times."""
    return [
        (CONTENDER_SERIES[model].label, *(number(error) for error in memory["errors"]["dpfp"][str(KEYS)].values()))
        for model, memory in measured().items()
    ]
