"""The script of the figure: recorded numbers, and a few lines that multiply them."""

import json
from pathlib import Path

import torch

from fastweights.experiments.demo.memory import BLUE, ORANGE, PICTURES, PURPLE
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.figure.transitions import recorded
from fastweights.playground.keys import COLOURS
from fastweights.playground.pictures import named
from fastweights.playground.view.images import GREY

SIMILARITY = 0.15
"""Of the keys: enough to see that writes leak."""
FIGURE_MEMORIES = {"sum rule": MemoryChoice("sum"), "delta rule": MemoryChoice("delta")}
DIGITS_KEPT = 9


def figure_script() -> str:
    """JavaScript that needs nothing else and draws into the element `fw-figure`."""
    data = {
        "keys": [[name, colour] for name, colour in COLOURS.items()],
        "pictures": {name: "".join(map(str, named(name))) for name in PICTURES},
        "colours": [list(bytes.fromhex(colour[1:])) for colour in ("#ffffff", BLUE, PURPLE, ORANGE, GREY)],
        "memories": [{"name": name, **_sparse(choice)} for name, choice in FIGURE_MEMORIES.items()],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Path(__file__).with_name("figure.js").read_text(encoding="utf-8").replace("/* recorded */ null", text)


def _sparse(choice: MemoryChoice) -> dict[str, object]:
    """What of A_i differs from the identity, as [row, column, number] by key; and b_i."""
    found = recorded(choice, SIMILARITY)
    changed = found.kept - torch.eye(len(COLOURS), dtype=found.kept.dtype)
    return {
        "kept": [
            [
                [row, column, _short(matrix[row, column].item())]
                for row, column in matrix.abs().gt(1e-12).nonzero().tolist()
            ]
            for matrix in changed
        ],
        "added": [[_short(x) for x in row] for row in found.added.tolist()],
    }


def _short(value: float) -> float:
    return round(value, DIGITS_KEPT)
