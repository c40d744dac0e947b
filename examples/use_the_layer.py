"""The layer in a few lines: train it to say again the symbol that followed the same symbol last time.

    python examples/use_the_layer.py

Each sequence binds random symbols to random answers, rebinds some of them, and asks. Only a memory that can overwrite
gives the newest answer; compare DeltaRule with SumRule below.
"""

import torch
from torch import Tensor, nn

from fastweights import DPFP, DeltaRule, FastWeightAttention, SumRule, UpdateRule

SYMBOLS, STEPS = 8, 24


def batch(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Symbols, answers, and what was last bound to the symbol of each step (-1 if nothing)."""
    symbols, answers = (torch.randint(SYMBOLS, (size, STEPS), generator=generator) for _ in range(2))
    latest = torch.full((size, SYMBOLS), -1)
    targets = torch.empty_like(symbols)
    for t in range(STEPS):
        symbol = symbols[:, t : t + 1]
        targets[:, t] = latest.gather(1, symbol)[:, 0]
        latest.scatter_(1, symbol, answers[:, t : t + 1])
    return symbols, answers, targets


def accuracy(rule: UpdateRule, steps: int = 60) -> float:
    """Train for `steps` steps; the share of right answers in the last ten."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    width = 2 * SYMBOLS
    layer = FastWeightAttention(width, 1, feature_map=DPFP(nu=1), update_rule=rule)
    readout = nn.Linear(width, SYMBOLS)
    optimiser = torch.optim.Adam([*layer.parameters(), *readout.parameters()], lr=1e-2)
    right: list[float] = []
    for _ in range(steps):
        symbols, answers, targets = batch(32, generator)
        eye = torch.eye(SYMBOLS)
        # A step shows the symbol alone (to read), then the pair (to write).
        asked = torch.cat([eye[symbols], torch.zeros_like(eye[answers])], dim=-1)
        shown = torch.cat([eye[symbols], eye[answers]], dim=-1)
        x = torch.stack([asked, shown], dim=2).flatten(1, 2)
        y, _ = layer(x)
        logits = readout(y[:, ::2])
        known = targets >= 0
        loss = nn.functional.cross_entropy(logits[known], targets[known])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        right.append((logits[known].argmax(-1) == targets[known]).double().mean().item())
    return sum(right[-10:]) / 10


def main() -> None:
    for rule in (SumRule(), DeltaRule()):
        print(f"{type(rule).__name__:10} answers {accuracy(rule):.0%} right (chance: {1 / SYMBOLS:.0%})")


if __name__ == "__main__":
    main()
