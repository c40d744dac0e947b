"""What every layer's state can do, for all kinds of states."""

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path, tree_map, tree_unflatten

from fastweights.layers import FastWeightAttention, SoftmaxAttention
from fastweights.layers.attention.relative import RelativeAttention
from fastweights.memory import FastWeightState, LayerState

LAYERS = {
    "fast weights": FastWeightAttention(8, 2, attention_normalisation=True),
    "softmax": SoftmaxAttention(8, 2),
    "relative": RelativeAttention(8, 2, memory_length=4),
}


@pytest.fixture(params=LAYERS)
def state(request: pytest.FixtureRequest) -> LayerState:
    return LAYERS[request.param](torch.randn(3, 5, 8, requires_grad=True))[1]


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_tensors_rebuild_the_state(state: LayerState) -> None:
    again = type(state).from_tensors(state.tensors())
    assert type(again) is type(state)
    assert same(again.tensors(), state.tensors())
    assert again.steps.tolist() == [5, 5, 5]


def test_tensors_of_another_state_are_refused(state: LayerState) -> None:
    name, tensor = next(iter(state.tensors().items()))
    rest = {other: x for other, x in state.tensors().items() if other != name}
    with pytest.raises(ValueError, match=r"expected the tensors .* got"):
        type(state).from_tensors(rest)
    with pytest.raises(ValueError, match=r"expected the tensors .* got"):
        type(state).from_tensors({**state.tensors(), "more": tensor})


def test_select_and_reorder_take_sequences(state: LayerState) -> None:
    mask, indices = torch.tensor([True, False, True]), torch.tensor([2, 0, 0])
    for name, x in state.select(mask).tensors().items():
        assert torch.equal(x, state.tensors()[name][[0, 2]])
    for name, x in state.reorder(indices).tensors().items():
        assert torch.equal(x, state.tensors()[name][[2, 0, 0]])
    with pytest.raises(ValueError, match=r"indices: expected a vector of indices, got torch\.bool"):
        state.reorder(mask)


def test_detach_clone_and_to(state: LayerState) -> None:
    assert any(x.requires_grad for x in state.tensors().values())
    assert not any(x.requires_grad for x in state.detach().tensors().values())
    pairs = zip(state.clone().tensors().values(), state.tensors().values(), strict=True)
    assert all(x.data_ptr() != y.data_ptr() for x, y in pairs)
    for name, x in state.to(dtype=torch.float64).tensors().items():
        before = state.tensors()[name].dtype
        assert x.dtype == (torch.float64 if before == torch.float32 else before)


def test_only_softmax_attention_keeps_every_step() -> None:
    growing = {name for name, layer in LAYERS.items() if layer.initial_state(1).grows}
    assert growing == {"softmax"}


def test_a_state_is_a_tree_of_its_tensors() -> None:
    state = FastWeightState.zeros(1, 2, 3, 4, normaliser=True)
    leaves, tree = tree_flatten(state)
    assert [x.shape for x in leaves] == [(1, 2, 3, 4), (1, 2, 4), (1,)]
    assert tree_unflatten(leaves, tree) == state
    assert tree_map(lambda x: x + 1, state).steps.tolist() == [1]
    assert tree_map(lambda x: x.dtype, state).steps == torch.int64
    paths = [keystr(path) for path, _ in tree_flatten_with_path(state)[0]]
    assert paths == [".weights", ".normaliser", ".steps"]
