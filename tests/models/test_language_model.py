"""The language model: sizes of the paper, configurations as data, streaming, and its dependence on the past alone."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights.experiments.language_models.presets import PRESETS
from fastweights.memory import AttentionNormalisation, FastWeightState
from fastweights.models.attention import (
    ATTENTIONS,
    AttentionConfig,
    FastWeightAttentionConfig,
    RelativeAttentionConfig,
    SoftmaxAttentionConfig,
)
from fastweights.models.language_model import LanguageModel, LanguageModelConfig


def tiny(attention: AttentionConfig, **changes: object) -> LanguageModel:
    torch.manual_seed(0)
    config = LanguageModelConfig(
        vocabulary_size=40, model_dim=16, num_heads=2, num_layers=2, feed_forward_dim=32, attention=attention,
        cutoffs=(10, 100), **changes,
    )  # fmt: skip
    return LanguageModel(config).double().eval()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("small-linear-sum", 44_018_394),
        ("small-linear-delta", 44_018_394 + 16_384),
        ("small-dpfp-delta", 44_018_394 + 16_384),
        ("small-transformer", 44_018_394),
        ("medium-performer-sum", 89_833_434),
        ("medium-performer-delta", 89_833_434 + 32_768),
    ],
)
def test_sizes_of_the_paper(name: str, parameters: int) -> None:
    with torch.device("meta"):
        model = PRESETS[name].task.empty_model()
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_every_preset_survives_as_data() -> None:
    for preset in PRESETS.values():
        model = preset.task.model
        assert LanguageModelConfig.from_dict(model.to_dict()) == model


@pytest.mark.parametrize("name", sorted(ATTENTIONS))
@pytest.mark.parametrize("pre_norm", [False, True])
def test_segments_equal_one_pass(name: str, pre_norm: bool) -> None:
    model = tiny(ATTENTIONS[name](), pre_norm=pre_norm)
    tokens = torch.randint(0, 40, (3, 21))
    whole, _ = model(tokens)
    pieces, states = [], None
    for piece in tokens.split([1, 5, 0, 2, 13], dim=1):
        hidden, states = model(piece, states)
        pieces.append(hidden)
    assert_close(torch.cat(pieces, dim=1), whole, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", sorted(ATTENTIONS))
def test_padding_and_the_future_change_nothing(name: str) -> None:
    model = tiny(ATTENTIONS[name]())
    tokens = torch.randint(0, 40, (2, 9))
    expected, _ = model(tokens)
    padded = torch.cat([torch.zeros(2, 4, dtype=torch.int64), tokens], dim=1)
    mask = torch.arange(13).expand(2, 13) >= 4
    assert_close(model(padded, mask=mask)[0][:, 4:], expected, rtol=1e-11, atol=1e-12)
    assert_close(model(tokens[:, :5])[0], expected[:, :5], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("choice", [None, AttentionNormalisation(), AttentionNormalisation(retrieval=False)])
def test_losses_are_those_of_the_probabilities(choice: AttentionNormalisation | None) -> None:
    model = tiny(FastWeightAttentionConfig(attention_normalisation=choice))
    tokens = torch.randint(0, 40, (2, 9))
    hidden, _ = model(tokens)
    log_p = model.log_probabilities(hidden).gather(-1, tokens[..., None])[..., 0]
    assert_close(model.losses(hidden, tokens), -log_p)


def test_positions_can_be_left_out() -> None:
    with_positions = tiny(FastWeightAttentionConfig())
    without = tiny(FastWeightAttentionConfig(), positions=False)
    without.load_state_dict(with_positions.state_dict())
    tokens = torch.randint(0, 40, (1, 6))
    assert not torch.allclose(with_positions(tokens)[0], without(tokens)[0])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"num_layers": 0}, "num_layers: expected at least 1, got 0"),
        ({"num_layers": 100_000_000}, "num_layers: expected at most 10000, got 100000000"),
        ({"dropout": 1.0}, "dropout: expected a probability below 1"),
        ({"attention": "softmx"}, r"attention: unknown name 'softmx' \(did you mean 'softmax'\?\)"),
        ({"widht": 3}, "unknown field 'widht'"),
    ],
)
def test_bad_configurations_are_named(change: dict[str, object], complaint: str) -> None:
    plain = {**PRESETS["cpu-linear-delta"].task.model.to_dict(), **change}
    with pytest.raises(ValueError, match=complaint):
        LanguageModelConfig.from_dict(plain)


@pytest.mark.parametrize(
    "attention", [FastWeightAttentionConfig(), SoftmaxAttentionConfig(), RelativeAttentionConfig(9)], ids=str
)
def test_the_initial_states_are_those_of_an_empty_past(attention: AttentionConfig) -> None:
    model = tiny(attention).eval()
    tokens, states = torch.randint(0, 20, (3, 7)), model.initial_states(3)
    expected, after = model(tokens)
    hidden, others = model(tokens, states)
    torch.testing.assert_close(hidden, expected, rtol=1e-5, atol=1e-6)
    for before, one, other in zip(states, after, others, strict=True):
        assert type(before) is type(one)
        assert before.steps.tolist() == [0, 0, 0]
        assert before.tensors().keys() == one.tensors().keys()
        assert [x.dtype for x in before.tensors().values()] == [x.dtype for x in one.tensors().values()]
        assert all(
            torch.allclose(x, y, atol=1e-6)
            for x, y in zip(one.tensors().values(), other.tensors().values(), strict=True)
        )


def test_states_of_another_depth_are_refused() -> None:
    model = tiny(FastWeightAttentionConfig())
    with pytest.raises(ValueError, match="expected one for each of the 2 layers, got 1"):
        model(torch.zeros(1, 1, dtype=torch.int64), model.initial_states(1)[:1])


@pytest.mark.slow
@pytest.mark.parametrize("cutoffs", [[], ["10", "20"]])
def test_compiled_into_one_graph_it_gives_the_same_loss_and_gradients(cutoffs: list[str]) -> None:
    program = Path(__file__).with_name("compiled_language_model.py")
    command = [sys.executable, str(program), "aot_eager", *cutoffs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 1e-5


@torch.no_grad()
@pytest.mark.usefixtures("without_shape_checks")
def test_exported_with_dynamic_batch_and_time_it_gives_the_same_hidden_vectors() -> None:
    config = LanguageModelConfig(
        vocabulary_size=50, model_dim=16, num_heads=2, num_layers=2, feed_forward_dim=16, cutoffs=(20,)
    )
    model = LanguageModel(config).eval()
    batch, time = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("time", min=2, max=4096)
    shapes = ({0: batch, 1: time},)
    program = torch.export.export(model, (torch.randint(0, 50, (2, 9)),), dynamic_shapes=shapes).module()
    for size in [(3, 17), (1, 300)]:
        tokens = torch.randint(0, 50, size)
        (found, states), (expected, _) = program(tokens), model(tokens)
        torch.testing.assert_close(found, expected)
        assert all(isinstance(state, FastWeightState) for state in states)


TOKENS = torch.arange(22, 40).view(2, 9)


@pytest.mark.usefixtures("without_shape_checks")
class TestTokens:
    @pytest.mark.parametrize(
        ("wrong", "got"),
        [
            (TOKENS.float(), "got torch.float32"),
            (TOKENS == 1, "got torch.bool"),
            (TOKENS[0], r"shape \(b, t\), got .*\(9,\)"),
            (TOKENS[None], r"shape \(b, t\), got .*\(1, 2, 9\)"),
            (TOKENS.clone().fill_(40), "from 0 to 39.* got 40 to 40"),
            (TOKENS - 40, "from 0 to 39.* got -18 to -1"),
        ],
    )
    def test_what_is_no_token_id_is_told(self, wrong: Tensor, got: str) -> None:
        model = tiny(FastWeightAttentionConfig())
        with pytest.raises(ValueError, match=rf"tokens: .*vocabulary of 40.*{got}"):
            model(wrong)
        with pytest.raises(ValueError, match=rf"targets: .*{got}"):
            model.losses(model(TOKENS)[0], wrong)

    def test_targets_are_as_many_as_hidden_vectors(self) -> None:
        model = tiny(FastWeightAttentionConfig())
        with pytest.raises(ValueError, match=r"targets: expected one for each of the \(2, 9\) hidden .*got \(2, 8\)"):
            model.losses(model(TOKENS)[0], TOKENS[:, 1:])

    def test_the_first_and_the_last_word_and_no_word_at_all_are_taken(self) -> None:
        model = tiny(FastWeightAttentionConfig())
        for tokens in (torch.tensor([[0, 39]]), torch.tensor([[0, 39]], dtype=torch.int32), TOKENS[:, :0]):
            hidden, _ = model(tokens)
            assert model.losses(hidden, tokens.long()).shape == tokens.shape

    def test_under_vmap_they_have_no_values_to_check(self) -> None:
        model = tiny(RelativeAttentionConfig(9))
        found = torch.func.vmap(lambda tokens: model(tokens[None])[0][0])(TOKENS)
        assert_close(found, model(TOKENS)[0])
