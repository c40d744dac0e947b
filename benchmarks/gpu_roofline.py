"""What the kernels of one scan have to move and to compute, and how long that takes a GPU at its best: on paper.

Bytes are those that cross the memory bus if every tensor is read or written once per kernel; the same tile for another
block comes from the cache. Operations count two for a multiplication with its sum; products with three parts count
three times.
"""

from dataclasses import dataclass

from fastweights.kernels.triton.configuration import Configuration


@dataclass(frozen=True)
class Chip:
    """A GPU by its data sheet: bytes per second, and operations per second of its matrix units, by precision."""

    name: str
    bandwidth: float
    tf32: float
    multiprocessors: int


CHIPS = (
    Chip("A100 SXM 80 GB", 2.039e12, 156e12, 108),
    Chip("H100 SXM", 3.35e12, 494.7e12, 132),
    Chip("MI300X", 5.3e12, 653.7e12, 304),
)
"""Dense rates of the makers' data sheets: NVIDIA A100 (2021), H100 (2022), AMD Instinct MI300X (2023)."""


@dataclass(frozen=True)
class Problem:
    """Sizes of a scan with decay, whose sequences have 16 bits."""

    name: str
    batch: int
    heads: int
    steps: int
    key_dim: int
    value_dim: int

    @property
    def sequences(self) -> int:
        return self.batch * self.heads


PROBLEMS = (
    Problem("the paper's small language model (DPFP-1)", 96, 8, 256, 32, 16),
    Problem("heads of 128", 8, 16, 2048, 128, 128),
    Problem("DPFP-3 of heads of 64", 8, 8, 2048, 384, 64),
)


@dataclass(frozen=True)
class Work:
    """Of one kernel: bytes, operations, and how many of its steps wait for each other."""

    kernel: str
    bytes: float
    operations: float
    programs: int
    depth: int = 1

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.operations / self.bytes

    def bound(self, chip: Chip) -> str:
        """What limits the kernel at its best; too few programs leave multiprocessors idle."""
        if self.programs < chip.multiprocessors:
            return f"{self.programs} programs"
        return "memory" if self.bytes / chip.bandwidth > self.operations / chip.tf32 else "arithmetic"

    def seconds(self, chip: Chip) -> float:
        """The shortest time: the longer of moving and computing, on the multiprocessors that have a program."""
        busy = min(1.0, self.programs / chip.multiprocessors)
        return max(self.bytes / chip.bandwidth, self.operations / chip.tf32) / busy


def works(problem: Problem, chosen: Configuration, element: int = 2) -> list[Work]:
    """Every kernel of a forward and a backward pass."""
    c, k, v = chosen.chunk, problem.key_dim, problem.value_dim
    chunks = -(-problem.steps // c)
    tiles, n = problem.sequences * chunks, problem.sequences
    key_blocks, value_blocks = -(-k // chosen.block_k), -(-v // chosen.block_v)
    keys, values, column, square, state, corrections = (
        c * k * element,
        c * v * element,
        4 * c,
        4 * c * c,
        4 * k * v,
        4 * c * v,
    )
    levels = c.bit_length() - 2
    parts = 3 if chosen.exact == "tf32x3" else 1

    def work(kernel: str, moved: int, multiplied: int, programs: int, depth: int = 1) -> Work:
        return Work(kernel, tiles * moved, 2.0 * tiles * multiplied, programs, depth)

    return [
        work("inverse", keys + 2 * column + square, c * c * k + parts * 2 * levels * c**3, tiles),
        work(
            "states",
            keys + values + 3 * column + square + corrections + state,
            c * k * v + parts * (c * c * v + c * k * v),
            n * value_blocks,
            chunks,
        ),
        work(
            "reads",
            2 * keys + column + corrections + state + values,
            c * c * k * value_blocks + c * k * v + parts * c * c * v,
            tiles * value_blocks,
        ),
        work(
            "asked",
            2 * keys + column + values + corrections,
            c * c * k * value_blocks + parts * c * c * v,
            tiles * value_blocks,
        ),
        work(
            "state_gradients",
            2 * keys + values + 2 * column + square + 2 * corrections + state,
            2 * c * k * v + parts * (c * c * v + c * k * v),
            n * value_blocks,
            chunks,
        ),
        work(
            "pairs",
            2 * keys + 3 * values + 6 * column + 2 * corrections + 2 * square,
            2 * c * c * k + parts * (2 * c * c * v + c**3),
            tiles,
        ),
        work(
            "features",
            4 * keys + 6 * column + values + 2 * corrections + 2 * square + 2 * state,
            3 * c * k * v + parts * 3 * c * c * k,
            tiles * key_blocks,
        ),
        work("coefficients", (4 + 3 * key_blocks) * column, 0, tiles),
    ]
