"""The kernels of the feature maps: a program has a few vectors x and all of their features.

With the largest feature m and s = Σ_j φ_j / m, the division by the sum is y = φ / (m s), and its gradient is
dφ = (dy - Σ_j dy_j y_j) / (m s). Where m vanishes, so do the features and the gradient.
"""

import triton
import triton.language as tl


@triton.jit
def places(rows, width, ROWS: tl.constexpr):
    """The rows of this program: where each begins in a matrix of this width, and which of them exist."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    return row.to(tl.int64)[:, None] * width, (row < rows)[:, None]


@triton.jit
def reciprocal(largest, total, vanishing):
    """1 / (m s), zero where m vanishes; NaN stays."""
    return tl.where(largest <= vanishing, 0.0, 1.0 / tl.where(largest <= vanishing, 1.0, largest * total))


@triton.jit
def elu_kernel(
    x, features, rows, dim, vanishing, DIVIDES: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """φ(x) = x + 1 if x > 0, else exp(x)."""
    start, real = places(rows, dim, ROWS)
    column = tl.arange(0, DIM)[None, :]
    inside = real & (column < dim)
    value = tl.load(x + start + column, mask=inside, other=0.0).to(tl.float32)
    y = tl.where(inside, tl.where(value > 0.0, value + 1.0, tl.exp(tl.where(value > 0.0, 0.0, value))), 0.0)
    if DIVIDES:
        largest = tl.max(y, 1)[:, None]
        scale = reciprocal(largest, 1.0, vanishing)
        y = y * scale
        y = y * reciprocal(1.0, tl.maximum(tl.sum(y, 1)[:, None], 1.0), 0.0)
    tl.store(features + start + column, y.to(features.dtype.element_ty), mask=inside)


@triton.jit
def elu_backward_kernel(
    x, features, result, rows, dim, vanishing, DIVIDES: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """dx = dφ if x > 0, else exp(x) dφ; `features` are the gradients of the features."""
    start, real = places(rows, dim, ROWS)
    column = tl.arange(0, DIM)[None, :]
    inside = real & (column < dim)
    value = tl.load(x + start + column, mask=inside, other=0.0).to(tl.float32)
    slope = tl.exp(tl.where(value > 0.0, 0.0, value))
    gradient = tl.load(features + start + column, mask=inside, other=0.0).to(tl.float32)
    if DIVIDES:
        y = tl.where(inside, tl.where(value > 0.0, value + 1.0, slope), 0.0)
        scale = reciprocal(tl.max(y, 1)[:, None], 1.0, vanishing)
        y = y * scale
        share = reciprocal(1.0, tl.maximum(tl.sum(y, 1)[:, None], 1.0), 0.0)
        gradient = (gradient - tl.sum(gradient * y, 1)[:, None] * share) * share * scale
    tl.store(result + start + column, (slope * gradient).to(result.dtype.element_ty), mask=inside)


@triton.jit
def rectified(x, start, index, dim, largest, inside):
    """r of [x, -x] at an index of 0 … 2 dim - 1, bounded so that no product of two overflows; NaN stays."""
    negative = index >= dim
    value = tl.load(x + start + tl.where(negative, index - dim, index), mask=inside, other=0.0).to(tl.float32)
    value = tl.where(negative, -value, value)
    return tl.where(value > largest, largest, tl.where(value < 0.0, 0.0, value))


@triton.jit
def before(index, shift, dim):
    """The index that a shift pairs with this one."""
    return tl.where(index >= shift, index - shift, index - shift + 2 * dim)


@triton.jit
def dpfp_scales(x, start, real, dim, nu, largest, vanishing, DIM: tl.constexpr):
    """1 / m and 1 / s over all shifts, as columns."""
    index = tl.arange(0, 2 * DIM)[None, :]
    inside = real & (index < 2 * dim)
    r = rectified(x, start, index, dim, largest, inside)
    most = tl.max(r * 0.0, 1)[:, None]
    for shift in range(1, nu + 1):
        other = rectified(x, start, before(index, shift, dim), dim, largest, inside)
        most = tl.maximum(most, tl.max(tl.where(inside, r * other, 0.0), 1)[:, None], tl.PropagateNan.ALL)
    scale = reciprocal(most, 1.0, vanishing)
    total = most * 0.0
    for shift in range(1, nu + 1):
        other = rectified(x, start, before(index, shift, dim), dim, largest, inside)
        total += tl.sum(tl.where(inside, r * other * scale, 0.0), 1)[:, None]
    return scale, 1.0 / tl.maximum(total, 1.0, tl.PropagateNan.ALL)


@triton.jit
def dpfp_kernel(
    x, features, rows, dim, nu, largest, vanishing, DIVIDES: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    """φ(x) = [r ⊙ roll(r, 1), …, r ⊙ roll(r, ν)]  with  r = relu([x, -x])."""
    start, real = places(rows, dim, ROWS)
    index = tl.arange(0, 2 * DIM)[None, :]
    inside = real & (index < 2 * dim)
    r = rectified(x, start, index, dim, largest, inside)
    if DIVIDES:
        scale, share = dpfp_scales(x, start, real, dim, nu, largest, vanishing, DIM)
    for shift in range(1, nu + 1):
        y = r * rectified(x, start, before(index, shift, dim), dim, largest, inside)
        if DIVIDES:
            y = y * scale * share
        place = features + start * 2 * nu + (shift - 1) * 2 * dim + index
        tl.store(place, y.to(features.dtype.element_ty), mask=inside)


@triton.jit
def dpfp_half(x, features, start, index, inside, dim, nu, largest, projected, scale):
    """The gradient of r at these indices: each r is the first factor of one product per shift and the second of one."""
    gradient = scale * 0.0 * index
    for shift in range(1, nu + 1):
        block = features + start * 2 * nu + (shift - 1) * 2 * dim
        earlier, later = before(index, shift, dim), before(index, 2 * dim - shift, dim)
        first = tl.load(block + index, mask=inside, other=0.0).to(tl.float32)
        second = tl.load(block + later, mask=inside, other=0.0).to(tl.float32)
        gradient += (first - projected) * scale * rectified(x, start, earlier, dim, largest, inside)
        gradient += (second - projected) * scale * rectified(x, start, later, dim, largest, inside)
    return gradient


@triton.jit
def dpfp_backward_kernel(
    x, features, result, rows, dim, nu, largest, vanishing,
    DIVIDES: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """dx = dr at x less dr at -x, where these are positive; `features` are the gradients of the features."""
    start, real = places(rows, dim, ROWS)
    projected, scale = tl.zeros((ROWS, 1), tl.float32), tl.full((ROWS, 1), 1.0, tl.float32)
    if DIVIDES:
        index = tl.arange(0, 2 * DIM)[None, :]
        inside = real & (index < 2 * dim)
        inverse, share = dpfp_scales(x, start, real, dim, nu, largest, vanishing, DIM)
        r = rectified(x, start, index, dim, largest, inside)
        for shift in range(1, nu + 1):
            other = rectified(x, start, before(index, shift, dim), dim, largest, inside)
            place = features + start * 2 * nu + (shift - 1) * 2 * dim + index
            gradient = tl.load(place, mask=inside, other=0.0).to(tl.float32)
            projected += tl.sum(gradient * (r * other * inverse * share), 1)[:, None]
        scale = inverse * share
    column = tl.arange(0, DIM)[None, :]
    inside = real & (column < dim)
    value = tl.load(x + start + column, mask=inside, other=0.0).to(tl.float32)
    above = dpfp_half(x, features, start, column, inside, dim, nu, largest, projected, scale)
    below = dpfp_half(x, features, start, column + dim, inside, dim, nu, largest, projected, scale)
    dx = tl.where((value > 0.0) & (value < largest), above, 0.0)
    dx = tl.where((value < 0.0) & (value > -largest), -below, dx)
    tl.store(result + start + column, dx.to(result.dtype.element_ty), mask=inside)


FORWARD = {"dpfp": dpfp_kernel, "elu_plus_one": elu_kernel}
BACKWARD = {"dpfp": dpfp_backward_kernel, "elu_plus_one": elu_backward_kernel}
