"""By its arguments the layer is a whole Gated DeltaNet, KDA or Mamba-2 mixer, as transformers has them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fastweights import (
    DecayedSumRule,
    FastWeightAttention,
    GatedDeltaRule,
    GatedNorm,
    GateThenNorm,
    Identity,
    KimiDeltaRule,
    L2Normalisation,
    NoNormalisation,
    ShortConvolution,
)
from fastweights.memory import FastWeightState, boundaries_of
from random_problems import relative_error

pytest.importorskip("transformers")

MODEL, STEPS = 16, 23


def gated_delta_net() -> tuple[nn.Module, FastWeightAttention]:
    module = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    config = module.Qwen3NextConfig(
        hidden_size=MODEL,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=6,
        layer_types=["linear_attention"],
        num_hidden_layers=1,
    )
    theirs = module.Qwen3NextGatedDeltaNet(config, 0)
    ours = FastWeightAttention(
        MODEL,
        4,
        num_key_heads=2,
        key_dim=8,
        value_dim=6,
        feature_map=Identity(),
        normalisation=L2Normalisation(),
        update_rule=GatedDeltaRule(),
        read_scale=8**-0.5,
        convolution=ShortConvolution(4),
        output_gate=GatedNorm(epsilon=config.rms_norm_eps),
    )
    # Theirs are grouped by key head: q, k, two values, two gates; two β, two α.
    q, k, v, z = theirs.in_proj_qkvz.weight.view(2, -1, MODEL).split([8, 8, 12, 12], dim=1)
    b, a = theirs.in_proj_ba.weight.view(2, -1, MODEL).split([2, 2], dim=1)
    copy(ours.projection.weight, *(x.reshape(-1, MODEL) for x in (q, k, v, b, a)))
    copy(ours.output_gate.gate.weight, z.reshape(-1, MODEL))
    copy(ours.gate_parameters["alpha"]["log_rate"], theirs.A_log)
    copy(ours.gate_parameters["alpha"]["bias"], theirs.dt_bias)
    return theirs, share(theirs, ours, theirs.out_proj)


def kimi_delta_attention() -> tuple[nn.Module, FastWeightAttention]:
    module = pytest.importorskip("transformers.models.kimi_linear.modeling_kimi_linear")
    config = module.KimiLinearConfig(hidden_size=MODEL, linear_num_heads=2, linear_head_dim=8, num_hidden_layers=4)
    theirs = module.KimiLinearDeltaAttention(config, 0)
    for parameter in (theirs.forget_gate.A_log, theirs.forget_gate.dt_bias):
        nn.init.normal_(parameter)
    ours = FastWeightAttention(
        MODEL,
        2,
        key_dim=8,
        value_dim=8,
        feature_map=Identity(),
        normalisation=L2Normalisation(),
        update_rule=KimiDeltaRule(),
        read_scale=8**-0.5,
        convolution=ShortConvolution(4),
        output_gate=GatedNorm("sigmoid", rank="head", epsilon=config.rms_norm_eps),
    )
    copy(ours.projection.weight, *(p.weight for p in (theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.b_proj)))
    down, up = ours.low_rank_gates["alpha"]
    copy(down.weight, theirs.forget_gate.f_a_proj.weight)
    copy(up.weight, theirs.forget_gate.f_b_proj.weight)
    copy(ours.gate_parameters["alpha"]["log_rate"], theirs.forget_gate.A_log.flatten())
    copy(ours.gate_parameters["alpha"]["bias"], theirs.forget_gate.dt_bias.view(2, 8))
    copy(ours.output_gate.gate[0].weight, theirs.g_a_proj.weight)
    copy(ours.output_gate.gate[1].weight, theirs.g_b_proj.weight)
    theirs.norm = theirs.o_norm
    return theirs, share(theirs, ours, theirs.o_proj)


def mamba2() -> tuple[nn.Module, FastWeightAttention]:
    module = pytest.importorskip("transformers.models.mamba2.modeling_mamba2")
    config = module.Mamba2Config(
        hidden_size=MODEL,
        num_heads=4,
        head_dim=8,
        state_size=5,
        n_groups=2,
        expand=2,
        num_hidden_layers=1,
        chunk_size=8,
    )
    theirs = module.Mamba2Mixer(config, 0).eval()
    nn.init.normal_(theirs.D)
    ours = FastWeightAttention(
        MODEL,
        4,
        num_key_heads=2,
        key_dim=5,
        value_dim=8,
        feature_map=Identity(),
        normalisation=NoNormalisation(),
        update_rule=DecayedSumRule(),
        convolution=ShortConvolution(4, bias=True),
        output_gate=GateThenNorm(epsilon=config.layer_norm_epsilon),
        value_skip=True,
    )
    gate, x, keys, queries, dt = theirs.in_proj.weight.split([32, 32, 10, 10, 4])
    copy(ours.projection.weight, queries, keys, x, dt)
    copy(ours.output_gate.gate.weight, gate)
    copy(ours.gate_parameters["decay"]["log_rate"], theirs.A_log)
    copy(ours.gate_parameters["decay"]["bias"], theirs.dt_bias)
    copy(ours.skip, theirs.D)
    ours = share(theirs, ours, theirs.out_proj)
    for mine, other in (
        (ours.convolution.weight, theirs.conv1d.weight[:, 0]),
        (ours.convolution.bias, theirs.conv1d.bias),
    ):
        x, keys, queries = other.split([32, 10, 10])
        copy(mine, queries, keys, x)
    return theirs, ours


def copy(to: Tensor, *parts: Tensor) -> None:
    with torch.no_grad():
        to.copy_(torch.cat(parts))


def share(theirs: Any, ours: FastWeightAttention, output: nn.Linear) -> FastWeightAttention:
    nn.init.normal_(theirs.norm.weight)
    copy(ours.output_gate.weight, theirs.norm.weight)
    copy(ours.output.weight, output.weight)
    copy(ours.convolution.weight, theirs.conv1d.weight[:, 0])
    return ours


MIXERS = [gated_delta_net, kimi_delta_attention, mamba2]


@pytest.mark.parametrize("make", MIXERS)
def test_it_computes_what_the_published_model_computes(make: Any) -> None:
    theirs, ours = make()
    # Long vectors, so that the small constants in their norms do not show.
    x = 100 * torch.randn(2, STEPS, MODEL)
    with torch.no_grad():
        expected, (actual, _) = theirs(x), ours(x)
    assert relative_error(actual, expected) <= 1e-5


@pytest.mark.parametrize("make", MIXERS)
@pytest.mark.parametrize("backend", ["auto", "chunked", "recurrent"])
def test_whole_in_segments_step_by_step_padded_and_packed_are_the_same(make: Any, backend: str) -> None:
    ours = make()[1].double()
    ours.backend = backend
    x = torch.randn(2, STEPS, MODEL, dtype=torch.float64)
    expected, final = ours(x)

    state: FastWeightState | None = None
    parts = []
    for segment in (slice(0, 9), slice(9, 9), *(slice(t, t + 1) for t in range(9, 13)), slice(13, None)):
        y, state = ours(x[:, segment], state)
        parts.append(y)
    same(torch.cat(parts, dim=1), expected, state, final)

    mask = torch.rand(2, 2 * STEPS).argsort(1) < STEPS  # half of the steps are padding, anywhere, with NaN in them
    padded = torch.full((2, 2 * STEPS, MODEL), torch.nan, dtype=torch.float64)
    padded[mask] = x.flatten(0, 1)
    y, state = ours(padded, None, mask)
    same(y[mask].view_as(expected), expected, state, final)

    row = x.flatten(0, 1)[None]
    y, state = ours(row, boundaries=boundaries_of([0, STEPS, 2 * STEPS], 2 * STEPS))
    same(y.view_as(expected), expected, state, final.select(torch.tensor([1])))


def same(y: Tensor, expected: Tensor, state: FastWeightState, final: FastWeightState) -> None:
    assert relative_error(y.detach(), expected.detach()) <= 1e-12
    for name, tensor in final.tensors().items():
        assert relative_error(state.tensors()[name].detach().double(), tensor.detach().double()) <= 1e-12, name


@pytest.mark.parametrize("make", MIXERS)
def test_the_state_can_be_saved_and_a_wrong_one_is_refused(make: Any, tmp_path: Any) -> None:
    ours = make()[1]
    _, state = ours(torch.randn(2, 5, MODEL))
    state.save(tmp_path / "state")
    assert FastWeightState.load(tmp_path / "state") == state
    assert ours.initial_state(2).tensors().keys() == state.tensors().keys()
    with pytest.raises(ValueError, match=r"state: expected a convolution of shape \(2, 3, .*\), got None"):
        ours(torch.randn(2, 5, MODEL), FastWeightState(state.weights, None, state.steps))
