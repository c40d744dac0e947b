"""The translation models by name: their sizes, their parameters, and Table 6."""

import pytest
import torch

from fastweights.feature_maps import DPFP, Favor
from fastweights.models.translator import Translator, TranslatorConfig
from fastweights.models.translator_presets import TABLE_1, TRANSLATOR_SIZES, translator_named
from fastweights.update_rules import DeltaRule, SumRule

NAMES = [f"{size}-{kind}" for size, kinds in TABLE_1.items() for kind in kinds]


def parameters(config: TranslatorConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Translator(config).parameters())


@pytest.mark.parametrize(("d_dot", "m", "nu"), [(256, 128, 2), (384, 192, 3), (512, 256, 4)])
def test_table_6(d_dot: int, m: int, nu: int) -> None:
    """Claim T7: d_dot of the Performer is 2m, of DPFP 2ν·d_key, at d_key 64."""
    assert Favor(m).feature_dim(64) == DPFP(nu).feature_dim(64) == d_dot
    big = TRANSLATOR_SIZES["big"]
    assert big.model_dim // big.num_heads == 64
    for name in (f"big-performer-m{m}", f"big-dpfp{nu}"):
        attention = translator_named(name).cross_attention
        assert attention.feature_map.feature_dim(64) == d_dot


def test_the_big_model_has_the_parameters_of_the_recipe() -> None:
    """By hand: the table, then attention, feed-forward and layer norms of six encoder and six decoder layers.

    The recipe's own model has 73,728 more: its projections have biases.
    """
    attention, feed_forward, norm = 4 * 1024**2, 2 * 1024 * 4096 + 4096 + 1024, 2 * 1024
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    expected = 32_768 * 1024 + 6 * (encoder + decoder)
    assert expected == 209_838_080
    for name in ("big-standard", "big-linear", "big-dpfp2", "big-dpfp4"):
        assert parameters(translator_named(name)) == expected


def test_the_small_models_differ_only_in_their_gates() -> None:
    expected = parameters(translator_named("cpu-standard"))
    assert expected == 4000 * 128 + 2 * (3 * 4 * 128**2 + 2 * (2 * 128 * 256 + 256 + 128) + 5 * 256)
    assert parameters(translator_named("cpu-dpfp2")) == expected
    # A write strength for each of the four heads of both decoder layers.
    assert parameters(translator_named("cpu-dpfp2-delta")) == expected + 2 * 4 * 128


@pytest.mark.parametrize("name", NAMES)
def test_every_model_of_the_table_is_there(name: str) -> None:
    config = translator_named(name, vocabulary_size=123)
    assert config.vocabulary_size == 123
    assert TranslatorConfig.from_dict(config.to_dict()) == config
    assert config.encoder_attention == config.cross_attention


def test_delta_stands_in_the_decoder_only() -> None:
    config = translator_named("cpu-dpfp2-delta")
    assert config.decoder_attention.update_rule == DeltaRule()
    assert config.encoder_attention.update_rule == config.cross_attention.update_rule == SumRule()
    assert config.decoder_attention.feature_map == DPFP(2)


@pytest.mark.parametrize("name", ["huge-linear", "cpu", "cpu-dpfp", "cpu-dpfp0", "cpu-standard-delta", "cpu-linear-x"])
def test_unknown_names_say_how_names_are_made(name: str) -> None:
    with pytest.raises(ValueError, match="possible: big, cpu followed by -standard, linear, performer-mM or dpfpN"):
        translator_named(name)
