"""The short convolution: its equation, its state, padding anywhere and packed sequences."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from fastweights.layers.attention.short_convolution import CausalConvolution, ShortConvolution


def drawn(width: int = 4, bias: bool = True) -> CausalConvolution:
    return ShortConvolution(width, bias).build(3).double()


def start(convolution: CausalConvolution, batch: int = 2) -> Tensor:
    return convolution.initial_state(batch, torch.float64, None)


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_the_equation(width: int, bias: bool) -> None:
    convolution, x = drawn(width, bias), torch.randn(1, 6, 3, dtype=torch.float64)
    y, after = convolution(x, start(convolution, 1))
    for t in range(6):
        for c in range(3):
            # The last weight belongs to the step itself, as in nn.Conv1d.
            total = sum(convolution.weight[c, width - 1 - i] * x[0, t - i, c] for i in range(width) if t >= i)
            total = total + (convolution.bias[c] if bias else 0.0)
            assert_close(y[0, t, c], total * torch.sigmoid(total))
    assert torch.equal(after[0], x[0, 6 - width + 1 :])


def test_it_is_the_convolution_of_torch() -> None:
    convolution, x = drawn(), torch.randn(2, 9, 3, dtype=torch.float64)
    theirs = nn.Conv1d(3, 3, 4, padding=3, groups=3).double()
    theirs.weight.data, theirs.bias.data = convolution.weight.data[:, None], convolution.bias.data
    assert_close(convolution(x, start(convolution))[0], nn.functional.silu(theirs(x.mT)[..., :9]).mT)


def test_its_first_weights_are_those_of_torch() -> None:
    torch.manual_seed(0)
    weight = ShortConvolution(4).build(2000).weight
    assert weight.abs().max() <= 0.5
    assert abs(weight.std().item() - 0.5 / 3**0.5) < 0.01


@pytest.mark.parametrize("cuts", [[3], [0, 1, 2], [1, 1, 8], list(range(10))], ids=str)
def test_segments_of_any_size_are_the_whole(cuts: list[int]) -> None:
    convolution, x = drawn(), torch.randn(2, 10, 3, dtype=torch.float64)
    expected, final = convolution(x, start(convolution))
    state, parts = start(convolution), []
    for begin, end in zip([0, *cuts], [*cuts, 10], strict=True):
        y, state = convolution(x[:, begin:end], state)
        parts.append(y)
    assert_close(torch.cat(parts, 1), expected)
    assert torch.equal(state, final)


def test_padding_anywhere_is_skipped_and_packed_sequences_are_apart() -> None:
    convolution, before = drawn(), torch.randn(2, 3, 3, dtype=torch.float64)
    mask = torch.tensor([[False, True, True, False, True, False, True, True], [True] * 3 + [False] * 5])
    begins = torch.zeros_like(mask)
    begins[0, 4] = True
    x = torch.randn(2, 8, 3, dtype=torch.float64).masked_fill(~mask[..., None], torch.nan)
    y, after = convolution(x, before, mask, begins)
    first, second = x[:1, [1, 2]], x[:1, [4, 6, 7]]
    assert_close(y[:1, [1, 2]], convolution(first, before[:1])[0])
    alone, state = convolution(second, start(convolution, 1))
    assert_close(y[:1, [4, 6, 7]], alone)
    assert torch.equal(after[:1], state)
    other, state = convolution(x[1:, :3], before[1:])
    assert_close(y[1:, :3], other)
    assert torch.equal(after[1:], state)
    assert torch.equal(y[~mask], torch.zeros_like(y[~mask]))


def test_the_state_forgets_what_a_packed_row_left_behind() -> None:
    convolution, x = drawn(), torch.randn(1, 5, 3, dtype=torch.float64)
    begins = torch.tensor([[False, False, False, False, True]])
    _, after = convolution(x, start(convolution, 1), None, begins)
    assert torch.equal(after[0, :2], torch.zeros(2, 3, dtype=torch.float64))
    assert torch.equal(after[0, 2], x[0, 4])


def test_nothing_of_a_sequence_changes_nothing() -> None:
    convolution, before = drawn(), torch.randn(2, 3, 3, dtype=torch.float64)
    y, after = convolution(torch.zeros(2, 0, 3, dtype=torch.float64), before)
    assert y.shape == (2, 0, 3)
    assert torch.equal(after, before)
    nothing = torch.zeros(2, 4, dtype=torch.bool)
    y, after = convolution(torch.randn(2, 4, 3, dtype=torch.float64), before, nothing, nothing)
    assert torch.equal(after, before)


def test_gradients_are_those_of_finite_differences() -> None:
    convolution = drawn()
    mask, begins = torch.tensor([[True, True, False, True, True]]), torch.tensor([[False, False, False, True, False]])
    x, before = torch.randn(1, 5, 3, dtype=torch.float64), torch.randn(1, 3, 3, dtype=torch.float64)
    weight = convolution.weight.detach().requires_grad_()

    def run(x: Tensor, before: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        arguments = (x, before, mask, begins)
        return torch.func.functional_call(convolution, {"weight": weight}, arguments)

    assert torch.autograd.gradcheck(run, (x.requires_grad_(), before.requires_grad_(), weight))


def test_a_width_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="width must be a whole number, at least 1, got 0"):
        ShortConvolution(0)
