"""What a model of seven billion parameters and 10¹² tokens would need: the arithmetic of docs/scale.md.

`python -m benchmarks.scale` prints the table of that page; a test compares the two.
"""

from collections.abc import Iterator
from dataclasses import dataclass

GIB, MIB = 2**30, 2**20
FLOAT32 = 4
DAY = 86_400.0


@dataclass(frozen=True)
class Plan:
    """A language model with fast weights, its text, and the machines."""

    layers: int = 32
    model_dim: int = 4096
    heads: int = 32
    key_dim: int = 128
    """k: components of a mapped key."""
    value_dim: int = 128
    vocabulary: int = 65_536
    tokens: float = 1e12
    length: int = 1_048_576
    """Tokens of the longest sequence."""
    processes: int = 1024
    stretches: int = 8
    """Processes that share one sequence."""
    flops: float = 0.4 * 989e12
    """Per second and process: 40 % of what an H100 has for bfloat16."""
    network: float = 50e9
    """Bytes per second and process."""

    @property
    def parameters(self) -> int:
        """4 D² per layer for attention, 8 D² for a feed-forward layer of four times the width, one table of words."""
        return 12 * self.layers * self.model_dim**2 + self.vocabulary * self.model_dim

    @property
    def state(self) -> int:
        """Bytes of W in one layer, per sequence."""
        return self.heads * self.value_dim * self.key_dim * FLOAT32

    @property
    def operator_flops(self) -> int:
        """Per token: retrieve, write, decay and read are about 7 k v per head, backward twice that."""
        return 3 * 7 * self.key_dim * self.value_dim * self.heads * self.layers

    @property
    def exchanged(self) -> int:
        """Bytes that a process sends per sequence: (v + k) k numbers forward and 2 v k backward, per head and layer."""
        k, v = self.key_dim, self.value_dim
        return self.layers * self.heads * ((v + k) * k + 2 * v * k) * FLOAT32

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """What, how it is computed, how much."""
        p, gathered = self.parameters, 3 * FLOAT32 * self.parameters
        flops = 6 * p + self.operator_flops
        yield "parameters P", "12 L D² + V D", f"{p / 1e9:.2f} billion"
        yield "weights, gradients, two moments", "16 P bytes", f"{16 * p / GIB:.0f} GiB"
        yield f"the same, sharded over {self.processes:,}", "16 P / n", f"{16 * p / self.processes / MIB:.0f} MiB each"
        yield "work per token", "6 P + 21 k v H L", f"{flops / 1e9:.1f} GFLOP"
        yield "share of the operator in it", "21 k v H L", f"{100 * self.operator_flops / flops:.1f} %"
        days = self.tokens * flops / (self.processes * self.flops) / DAY
        yield f"{self.tokens:.0e} tokens on {self.processes:,} processes", "40 % of an H100 each", f"{days:.1f} days"
        yield "the text as 16-bit tokens", "2 bytes each", f"{2 * self.tokens / 1e12:.0f} TB"
        yield "state per layer and sequence", "4 H k v bytes", f"{self.state / MIB:.0f} MiB"
        yield "state per sequence", "4 L H k v bytes", f"{self.layers * self.state / MIB:.0f} MiB"
        starts = self.length // 128 * self.state
        yield (
            f"states kept for backward, {self.length:,} steps, per layer",
            "one in 128 steps",
            f"{starts / GIB:.0f} GiB",
        )
        yield f"the same on {self.stretches} stretches", "", f"{starts / self.stretches / GIB:.0f} GiB each"
        yield "sent for sharding, per step and process", "2 gathers and 1 reduction of 4 P", f"{gathered / 1e9:.0f} GB"
        hidden = gathered / self.network * self.flops / flops
        yield "tokens per step and process that hide it", "at 50 GB/s", f"{hidden:,.0f}"
        sent = f"{self.exchanged / MIB:.0f} MiB"
        yield "sent for stretches, per sequence and process", "4 L H ((v + k) k + 2 v k)", sent
        attention = 4 * self.length * self.model_dim * self.layers
        yield (
            "keys and values that softmax would pass on instead",
            "4 t D L bytes (16 bits)",
            f"{attention / GIB:.0f} GiB",
        )


def table(plan: Plan | None = None) -> str:
    """The table of docs/scale.md."""
    lines = ["| what | formula | amount |", "|---|---|---|"]
    lines += [f"| {what} | {formula} | {amount} |" for what, formula, amount in (plan or Plan()).rows()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
