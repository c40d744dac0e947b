"""A sequence in pieces: the state goes in and comes out, has a fixed size, and can be kept on disk.

python examples/stream_a_sequence.py
"""

import tempfile
from pathlib import Path

import torch

from fastweights import FastWeightAttention, FastWeightState


def main() -> None:
    torch.manual_seed(0)
    layer = FastWeightAttention(64, 4).eval()
    x = torch.randn(1, 1000, 64)
    with torch.no_grad():
        whole, _ = layer(x)

        # In pieces of any size, down to single tokens.
        pieces, state = [], None
        for piece in x.split([500, 1, 1, 300, 198], dim=1):
            y, state = layer(piece, state)
            pieces.append(y)
        difference = (torch.cat(pieces, dim=1) - whole).norm() / whole.norm()
        print(f"in pieces:   relative difference {difference:.1e}")
        assert difference < 2e-6

        # Half today, half tomorrow.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "memory.safetensors"
            _, state = layer(x[:, :500])
            state.save(path)
            print(f"on disk:     {path.stat().st_size} bytes, however long the sequence was")
            resumed, state = layer(x[:, 500:], FastWeightState.load(path))
        difference = (resumed - whole[:, 500:]).norm() / whole[:, 500:].norm()
        print(f"after a rest: relative difference {difference:.1e}, {state.steps.item()} steps seen")
        assert difference < 2e-6


if __name__ == "__main__":
    main()
