"""Recording models: what is found, what it costs when it is off, and what is refused."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import fastweights.memory.run as run_module
import fastweights.memory.traced_writes as traced_module
from fastweights import (
    DPFP,
    DeltaProductRule,
    DeltaRule,
    EluPlusOne,
    FastWeightAttention,
    FastWeightCrossAttention,
    L2Normalisation,
    NoNormalisation,
    NormalisedStep,
    SumNormalisation,
    SumRule,
)
from fastweights.memory import QUANTITIES, record
from fastweights.memory.layer_trace import Spectrum

pytestmark = pytest.mark.usefixtures("one_thread")


class SomebodysModel(nn.Module):
    """A model of somebody else, with two of our layers in it."""

    def __init__(self, **choices: Any) -> None:
        super().__init__()
        self.stem = nn.Linear(6, 8)
        self.mixers = nn.ModuleList(FastWeightAttention(8, 2, **choices) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for mixer in self.mixers:
            x = x + mixer(x)[0]
        return x


@pytest.fixture
def model() -> SomebodysModel:
    torch.manual_seed(0)
    return SomebodysModel()


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of calls of the operator so far."""
    calls = [0]
    for module in (run_module, traced_module):
        original = module.fast_weight_scan

        def counted(*args: Any, original: Any = original, **more: Any) -> Any:
            calls[0] += 1
            return original(*args, **more)

        monkeypatch.setattr(module, "fast_weight_scan", counted)
    return calls


def test_every_fast_weight_layer_of_a_model_is_recorded(model: SomebodysModel) -> None:
    with record(model) as seen:
        model(torch.randn(3, 5, 6))
    assert list(seen) == ["mixers.0", "mixers.1"]
    assert seen["mixers.1"]["landing"].shape == (3, 2, 5)
    assert seen["mixers.1"].positions.tolist() == [[0, 1, 2, 3, 4]] * 3


def test_outputs_and_gradients_do_not_change(model: SomebodysModel) -> None:
    x = torch.randn(3, 5, 6)
    plain = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    with record(model):
        recorded = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("autocast", [False, True])
def test_low_precision_does_not_change_either(dtype: torch.dtype, autocast: bool) -> None:
    torch.manual_seed(0)
    layer, x = FastWeightAttention(16, 2).to(dtype), torch.randn(2, 9, 16, dtype=dtype)

    def everything() -> list[Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y, state = layer(x)
        return [y, state.weights, *torch.autograd.grad(y.float().square().sum(), list(layer.parameters()))]

    plain = everything()
    with record(layer) as seen:
        recorded = everything()
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))
    assert seen[""]["landing"].isfinite().all()


@torch.no_grad()
def test_single_steps_do_not_change_and_are_recorded_as_the_whole_sequence() -> None:
    torch.manual_seed(0)
    layer, x = FastWeightAttention(16, 2), torch.randn(2, 6, 16)

    def stepped() -> list[Tensor]:
        state, ys = None, []
        for t in range(6):
            y, state = layer(x[:, t : t + 1], state)
            ys.append(y)
        assert state is not None
        return [torch.cat(ys, dim=1), state.weights]

    plain = stepped()
    with record(layer) as steps:
        recorded = stepped()
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))
    with record(layer) as whole:
        layer(x)
    for name in ("landing", "balance", "retrieved", "stored", "weights", "read"):
        assert_close(steps[""][name], whole[""][name], rtol=1e-5, atol=1e-5)


def test_traces_are_computed_in_full_precision_under_autocast() -> None:
    torch.manual_seed(0)
    layer, x, state = FastWeightAttention(16, 2, normalisation=L2Normalisation()), torch.randn(2, 30, 16), None
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad(), record(layer) as seen:
        for part in x.split(1, dim=1):
            _, state = layer(part, state)
    # L2-normalised keys that were rounded once are of length 1 to that precision, and λ is |k|².
    assert_close(seen[""]["landing"], seen[""]["key_square"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("backward_inside", [True, False])
def test_a_pass_that_checkpointing_repeats_is_recorded_once(
    model: SomebodysModel, reentrant: bool, backward_inside: bool
) -> None:
    x = torch.randn(3, 5, 6, requires_grad=True)
    model(x).square().sum().backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    with record(model) as seen:
        loss = checkpoint(model, x, use_reentrant=reentrant).square().sum()
        if backward_inside:
            loss.backward()
    if not backward_inside:
        loss.backward()
    assert {trace.steps for trace in seen.values()} == {5}
    for found, wanted in zip(model.parameters(), expected, strict=True):
        assert found.grad is not None
        assert wanted is not None
        assert torch.equal(found.grad, wanted)


def test_streams_may_leave_inference_mode(model: SomebodysModel) -> None:
    layer, x = model.mixers[0], torch.randn(2, 5, 8)
    with record(layer) as seen:
        with torch.inference_mode():
            _, state = layer(x)
        with torch.no_grad():
            layer(x, state.clone())
    assert seen[""].steps == 10


def test_one_key_has_no_crosstalk_and_no_sequence_no_trace() -> None:
    layer = FastWeightAttention(8, 2).double()
    with record(layer) as seen:
        layer(torch.randn(1, 1, 8, dtype=torch.float64))
    assert seen[""].key_statistics.crosstalk.isnan().all()
    with record(layer) as none:
        layer(torch.randn(0, 3, 8, dtype=torch.float64))
    assert none[""].steps == 0


@torch.no_grad()  # in training a layer may run its sequence without the operator
def test_off_it_costs_no_call_of_the_operator(model: SomebodysModel, scans: list[int]) -> None:
    x = torch.randn(3, 5, 6)
    model(x)
    assert scans == [2]
    with record(model):
        model(x)
    assert scans == [2 + 4], "one scan of each layer, and one more with shifted keys"
    model(x)
    assert scans == [2 + 4 + 2]
    assert all(mixer.observer is None and "observer" not in copy.copy(mixer).state_dict() for mixer in model.mixers)


def test_an_error_inside_ends_the_recording(model: SomebodysModel) -> None:
    with pytest.raises(RuntimeError), record(model):
        model(torch.randn(3, 5, 7))
    assert all(mixer.observer is None for mixer in model.mixers)


def test_modules_that_happen_to_have_an_observer_keep_it(model: SomebodysModel) -> None:
    theirs = nn.Linear(6, 6)
    theirs.observer = "theirs"  # type: ignore[assignment]
    model.add_module("theirs", theirs)
    with record(model) as seen:
        model(torch.randn(3, 5, 6))
    assert theirs.observer == "theirs"
    assert "theirs" not in seen


def test_what_cannot_be_recorded_is_refused(model: SomebodysModel) -> None:
    with pytest.raises(ValueError, match="Linear has no fast-weight layer to record"), record(nn.Linear(2, 2)):
        pass
    with record(model), pytest.raises(ValueError, match=r"mixers\.0 is being recorded already"), record(model):
        pass
    for option in ("every", "limit", "spectra_every"):
        with pytest.raises(ValueError, match=f"{option}: must be an integer of at least 1, got 0"):
            record(model, **{option: 0}).__enter__()
    with record(model) as seen:
        pass
    with pytest.raises(ValueError, match="nothing was recorded"):
        _ = seen["mixers.0"]["landing"]
    with pytest.raises(KeyError, match="possible: strength, key_square"):
        _ = seen["mixers.0"]["lambda"]
    with pytest.raises(KeyError, match=r"possible: mixers\.0, mixers\.1"):
        _ = seen["mixers.2"]


def test_calls_of_other_batch_sizes_make_a_table_but_no_tensor(model: SomebodysModel) -> None:
    with record(model) as seen:
        model(torch.randn(3, 5, 6))
        model(torch.randn(2, 4, 6))
    with pytest.raises(ValueError, match=r"batches of \[2, 3\] sequences"):
        _ = seen["mixers.0"]["landing"]
    assert len(seen.to_table().rows) == 2 * 2 * (3 * 5 + 2 * 4)
    assert len(seen.summary().rows) == 2 * 2


@pytest.mark.parametrize(
    ("rule", "normalisation", "landing", "balance"),
    [
        (DeltaRule(), SumNormalisation(), None, 1.0),
        (DeltaRule(), L2Normalisation(), 1.0, None),
        (NormalisedStep(), SumNormalisation(), 1.0, 1.0),
        (NormalisedStep(), NoNormalisation(), 1.0, None),
    ],
    ids=str,
)
def test_the_two_criteria(rule: Any, normalisation: Any, landing: float | None, balance: float | None) -> None:
    torch.manual_seed(0)
    layer = FastWeightAttention(8, 2, feature_map=EluPlusOne(), update_rule=rule, normalisation=normalisation)
    with record(layer) as seen:
        layer(torch.randn(2, 20, 8))
    trace = seen[""]
    for name, goal in (("landing", landing), ("balance", balance)):
        found = trace[name]
        if goal is None:
            assert (found - 1).abs().median() > 0.1
        else:
            assert_close(found, torch.full_like(found, goal), rtol=1e-5, atol=1e-5)
    if isinstance(rule, DeltaRule):
        assert_close(trace["landing"], trace["key_square"], rtol=1e-5, atol=1e-6)


def test_a_long_text_takes_constant_memory() -> None:
    torch.manual_seed(0)
    layer = FastWeightAttention(8, 2).double()
    x = torch.randn(1, 640, 8, dtype=torch.float64)
    with record(layer, limit=100) as thin:
        state = None
        for part in x.split(37, dim=1):
            _, state = layer(part, state)
    with record(layer) as full:
        layer(x)
    kept = thin[""].writes
    assert len(kept) <= 100
    assert kept.tolist() == list(range(0, 640, 8))
    assert_close(thin[""]["landing"], full[""]["landing"][..., ::8])
    assert_close(thin[""].mean("error_after"), full[""]["error_after"].mean(dim=(0, 2)))
    columns = full.summary().columns.index("key_square"), full.summary().columns.index("crosstalk")
    for column in columns:
        for a, b in zip(thin.summary().rows, full.summary().rows, strict=True):
            assert a[column] == pytest.approx(b[column])


def test_singular_values_are_those_of_the_state() -> None:
    torch.manual_seed(0)
    layer, x = FastWeightAttention(8, 2).double(), torch.randn(2, 11, 8, dtype=torch.float64)
    with record(layer, spectra_every=4) as seen:
        layer(x)
    assert [spectrum.write for spectrum in seen[""].spectra] == [4, 8]
    for spectrum in (*seen[""].spectra, seen[""].final):
        _, state = layer(x[:, : spectrum.write])
        expected = torch.linalg.svdvals(state.weights.float())
        assert_close(spectrum.singular_values, expected, rtol=1e-5, atol=1e-6)


def test_ranks_count_directions() -> None:
    equal, single = torch.tensor([[[2.0, 2.0, 2.0, 0.0]]]), torch.tensor([[[5.0, 0.0, 0.0, 0.0]]])
    for values, rank in ((equal, 3.0), (single, 1.0), (torch.zeros(1, 1, 4), 0.0)):
        spectrum = Spectrum(1, values)
        assert spectrum.effective_rank.item() == pytest.approx(rank)
        assert spectrum.stable_rank.item() == pytest.approx(rank)


def test_several_writes_per_step_are_traced_one_by_one() -> None:
    torch.manual_seed(0)
    layer = FastWeightAttention(8, 2, update_rule=DeltaProductRule(3))
    with record(layer) as seen:
        layer(torch.randn(2, 5, 8))
    assert seen[""]["landing"].shape == (2, 2, 15)
    assert seen[""].positions[0].tolist() == [t for t in range(5) for _ in range(3)]
    assert seen[""]["read"].isfinite()[0, 0].tolist() == 5 * [False, False, True]


@pytest.mark.parametrize("rule", [SumRule(), DeltaRule()], ids=str)
def test_a_source_is_recorded_where_it_is_written(rule: Any) -> None:
    torch.manual_seed(0)
    layer = FastWeightCrossAttention(
        8, 2, update_rule=rule, normalisation=NoNormalisation(), attention_normalisation=isinstance(rule, SumRule)
    )
    x, source = torch.randn(2, 3, 8), torch.randn(2, 7, 8)
    with record(layer) as written:
        layer(x, layer.write(source))
    with record(layer) as attended:
        layer.attend(x, source)
    assert_close(written[""]["landing"], attended[""]["landing"])
    assert written[""]["landing"].shape == (2, 2, 7)


def test_reads_of_a_whole_sequence_are_recorded_as_well() -> None:
    torch.manual_seed(0)
    layer = FastWeightAttention(
        8, 2, feature_map=DPFP(1), update_rule=SumRule(), normalisation=NoNormalisation(), attention_normalisation=True
    )
    x = torch.randn(2, 5, 8)
    plain = layer.attend(x)
    with record(layer) as short:
        assert torch.equal(layer.attend(x), plain)
    with record(layer) as causal:
        layer(x)
    assert_close(short[""]["landing"], causal[""]["landing"])
    for name in ("overlap", "read"):
        assert_close(short[""][name], causal[""][name])


def test_the_table_leaves_padding_out(tmp_path: Any) -> None:
    torch.manual_seed(0)
    layer, mask = FastWeightAttention(8, 2), torch.tensor([[True, True, False], [True, False, False]])
    with record(layer) as seen:
        layer(torch.randn(2, 3, 8), mask=mask)
    table = seen.to_table()
    assert table.columns == ("layer", "sequence", "head", "position", *QUANTITIES)
    assert len(table.rows) == 2 * 3
    assert str(table).count("\n") == 6
    assert math.isnan(float(table.rows[0][table.columns.index("overlap")]))
    table.to_csv(tmp_path / "trace.csv")
    lines = (tmp_path / "trace.csv").read_text().splitlines()
    assert lines[0].startswith("layer,sequence,head,position,strength")
    assert len(lines) == 7
