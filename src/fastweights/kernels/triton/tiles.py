"""What every kernel does with tiles: load them, store them, multiply them, invert a triangle, and age by decays."""

import triton
import triton.language as tl

from fastweights.kernels.triton.availability import interpreted

INTERPRETED = tl.constexpr(interpreted())
"""Whether kernels run in Triton's interpreter, on CPU tensors."""

ALMOST_ZERO = tl.constexpr(1e-300)
"""Stands for a decay of zero, whose logarithm would be infinite: products with it are zero in float32."""


@triton.jit
def load_tile(
    base, row, column, row_stride, column_stride, last_row, last_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The matrix from this row and column on, in float32, with zeros outside."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (rows < last_row - row)[:, None] & (columns < last_column - column)[None, :]
    # One long number for the tile, short ones inside it.
    base += tl.cast(row, tl.int64) * row_stride + tl.cast(column, tl.int64) * column_stride
    tile = tl.load(base + rows[:, None] * row_stride + columns[None, :] * column_stride, mask=inside, other=0.0)
    return tile.to(tl.float32)


@triton.jit
def store_tile(
    base, tile, row, column, row_stride, column_stride, last_row, last_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Write the matrix from this row and column on, in the type of the memory; nothing outside is written."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (rows < last_row - row)[:, None] & (columns < last_column - column)[None, :]
    base += tl.cast(row, tl.int64) * row_stride + tl.cast(column, tl.int64) * column_stride
    offsets = rows[:, None] * row_stride + columns[None, :] * column_stride
    tl.store(base + offsets, tile.to(base.dtype.element_ty), mask=inside)


@triton.jit
def load_column(base, row, stride, last_row, filling, ROWS: tl.constexpr):
    """One number per step from this row on, in float32; steps beyond the last one have the filling."""
    rows = tl.arange(0, ROWS)
    base += tl.cast(row, tl.int64) * stride
    return tl.load(base + rows * stride, mask=rows < last_row - row, other=filling).to(tl.float32)


@triton.jit
def store_column(base, column, row, last_row, ROWS: tl.constexpr):
    """Write one number per step from this row on."""
    rows = tl.arange(0, ROWS)
    tl.store(base + row + rows, column, mask=rows < last_row - row)


@triton.jit
def multiply(x, y, PRECISION: tl.constexpr):
    """x y, summed in float32."""
    if INTERPRETED and PRECISION == "tf32":  # the interpreter multiplies in full
        x, y = round_to_tf32(x), round_to_tf32(y)
    return tl.dot(x, y, input_precision=PRECISION)


@triton.jit
def round_to_tf32(x):
    """The nearest number with the ten digits that a tensor core sees of a float32 number."""
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(x == x, (bits + 0x1000) & -0x2000, bits).to(tl.float32, bitcast=True)


@triton.jit
def invert(system, C: tl.constexpr, LEVELS: tl.constexpr, PRECISION: tl.constexpr):
    """(I + L)⁻¹ of a strictly lower triangular L of 2^LEVELS rows.

    Two neighbouring blocks whose inverses are known, A above C with B beside them, have the inverse
    [A⁻¹ 0; -C⁻¹ B A⁻¹ C⁻¹]: doubling the blocks takes two products for all pairs at once. Only parts of the inverse
    itself occur on the way, never powers of L, which may overflow.
    """
    steps = tl.arange(0, C)
    rows, columns = steps[:, None], steps[None, :]
    inverse = tl.where(rows == columns, 1.0, 0.0) - tl.where(rows // 2 == columns // 2, system, 0.0)
    for level in range(1, LEVELS):
        beside = (rows >> (level + 1) == columns >> (level + 1)) & (rows >> level != columns >> level)
        joint = tl.where(beside, system, 0.0)
        inverse -= multiply(multiply(inverse, joint, PRECISION), inverse, PRECISION)
    return inverse


@triton.jit
def cumulative_logs(decay):
    """log(g_1 … g_i), and the same without g_i, each as the sum of two float32 numbers.

    A difference of two such sums has the rounding error of the difference, not of the sums.
    """
    logs = tl.log(tl.where(decay == 0.0, ALMOST_ZERO, decay.to(tl.float64)))
    until = tl.cumsum(logs, 0)
    before = until - logs
    until_high, before_high = until.to(tl.float32), before.to(tl.float32)
    until_low, before_low = (until - until_high).to(tl.float32), (before - before_high).to(tl.float32)
    return until_high, until_low, before_high, before_low


@triton.jit
def last_of(column, C: tl.constexpr):
    """The last number of a column."""
    return tl.sum(tl.where(tl.arange(0, C) == C - 1, column, 0.0), 0)


@triton.jit
def between(row_high, row_low, high, low, allowed):
    """exp(row_i - column_j) where it is allowed, else zero: never the exponential of a positive number."""
    difference = (row_high[:, None] - high[None, :]) + (row_low[:, None] - low[None, :])
    return tl.exp(tl.where(allowed, difference, float("-inf")))
