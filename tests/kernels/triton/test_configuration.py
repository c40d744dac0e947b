"""Block sizes and precisions."""

from itertools import product

import pytest
import torch

from fastweights.kernels.triton.configuration import Configuration, choose, every


def test_blocks_hold_what_there_is_up_to_the_largest() -> None:
    assert choose(torch.bfloat16, 3, 5) == Configuration(32, 32, 16, "tf32", "tf32x3")
    assert choose(torch.bfloat16, 33, 17) == Configuration(32, 64, 32, "tf32", "tf32x3")
    assert choose(torch.float32, 512, 128) == Configuration(32, 32, 32, "ieee", "ieee", warps=8)


def test_float32_is_as_exact_as_torchs_products() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        assert choose(torch.float32, 64, 64).precision == "tf32"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert choose(torch.float32, 64, 64).precision == "ieee"


@pytest.mark.parametrize("backend", ["cuda", "hip"])
def test_every_choice_is_among_those_that_are_compiled(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4" if backend == "hip" else None)
    known = set(every(backend))
    sizes = (0, 1, 15, 16, 17, 32, 33, 64, 65, 512)
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    chosen = {choose(dtype, *numbers) for dtype in dtypes for numbers in product(sizes, repeat=2)}
    assert chosen <= known
    assert {(x.precision, x.exact) for x in known} == {
        ("tf32", "tf32x3" if backend == "cuda" else "ieee"),
        ("ieee",) * 2,
    }
