"""What a backward pass keeps: never the weights of every step."""

import pytest
import torch
from benchmarks.backward_memory import LOOP, measure_apart
from operator_inputs import draw, leaves

from combinations import usable_backends
from fastweights import fast_weight_scan

FAST = [name for name in usable_backends(torch.float32) if name != LOOP]


@pytest.mark.slow
def test_backward_needs_less_than_a_twentieth_of_what_the_step_loop_needs() -> None:
    assert measure_apart("chunked") < measure_apart(LOOP) / 20


@pytest.mark.parametrize("backend", FAST)
def test_what_is_saved_for_backward_does_not_hold_the_weights_of_every_step(backend: str) -> None:
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    steps, dim = 512, 64
    tensors = leaves(draw(0, 1, 1, steps, dim, dim, torch.float32))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        fast_weight_scan(**tensors, backend=backend)
    # Queries, keys and values are there anyway; corrections and some weights may be as much again.
    assert sum(saved.values()) < 8 * steps * dim * 4
