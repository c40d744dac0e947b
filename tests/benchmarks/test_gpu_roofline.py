"""Bounds on paper: what they count, on a problem small enough to count by hand."""

from benchmarks.gpu_roofline import CHIPS, Problem, works

from fastweights.kernels.triton.configuration import Configuration

CHOSEN = Configuration(16, 16, 16, "tf32", "ieee")


def test_bytes_and_operations_of_one_chunk() -> None:
    kernels = {work.kernel: work for work in works(Problem("one chunk", 1, 1, 16, 16, 16), CHOSEN)}
    sequence, column, square = 16 * 16 * 2, 16 * 4, 16 * 16 * 4
    assert kernels["inverse"].bytes == sequence + 2 * column + square
    assert kernels["inverse"].operations == 2 * (16**3 + 2 * 3 * 16**3), "K Kᵀ, and two products for each doubling"
    assert kernels["states"].operations == 2 * 3 * 16**3, "K S, the inverse times R, Kᵀ U"
    assert kernels["states"].bytes == 2 * sequence + 3 * column + 3 * square
    assert kernels["reads"].operations == 2 * 3 * 16**3, "Q Kᵀ, Q S, P U"


def test_products_in_three_parts_count_three_times() -> None:
    parts = Configuration(16, 16, 16, "tf32", "tf32x3")
    kernels = {work.kernel: work for work in works(Problem("one chunk", 1, 1, 16, 16, 16), parts)}
    assert kernels["states"].operations == 2 * (1 + 3 + 3) * 16**3, "K S once; the inverse times R, Kᵀ U"
    assert kernels["reads"].operations == 2 * (2 + 3) * 16**3, "Q Kᵀ, Q S once; P U"


def test_work_grows_with_sequences_and_steps_and_only_the_walk_has_depth() -> None:
    small, large = (works(Problem("", b, 2, t, 64, 64), CHOSEN) for b, t in ((1, 64), (3, 128)))
    for one, other in zip(small, large, strict=True):
        assert (other.bytes, other.operations) == (6 * one.bytes, 6 * one.operations)
        assert other.depth == (8 if one.kernel in ("states", "state_gradients") else 1)


def test_the_bound_is_what_takes_longer() -> None:
    chip = CHIPS[0]
    for work in works(Problem("", 64, 16, 512, 128, 128), CHOSEN):
        moving, computing = work.bytes / chip.bandwidth, work.operations / chip.tf32
        assert work.seconds(chip) == max(moving, computing)
        assert work.bound(chip) == ("memory" if moving > computing else "arithmetic")
    (lonely, *_) = works(Problem("", 1, 1, 16, 16, 16), CHOSEN)
    assert lonely.bound(chip) == "1 programs"
