"""The translators by name: their sizes, their parameters, Table 6, and the data that they are given."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fastweights.experiments.families import codec, preset_named
from fastweights.experiments.options import DataOptions
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.experiments.translation.presets import PRESETS, followed_preset, on_data
from fastweights.experiments.translation.scores import model_of
from fastweights.feature_maps import DPFP, Favor
from fastweights.models.attention import FastWeightAttentionConfig, SoftmaxAttentionConfig
from fastweights.models.translator import TranslatorConfig
from fastweights.training.run import Run
from fastweights.update_rules import DeltaRule, SumRule


def model(name: str) -> TranslatorConfig:
    task = PRESETS[f"translation-{name}"].task
    assert isinstance(task, TranslationConfig)
    return task.model


def parameters(name: str) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in PRESETS[f"translation-{name}"].task.empty_model().parameters())


@pytest.mark.parametrize(("d_dot", "m", "nu"), [(256, 128, 2), (384, 192, 3), (512, 256, 4)])
def test_table_6(d_dot: int, m: int, nu: int) -> None:
    """d_dot of the Performer is 2m, of DPFP 2ν·d_key, at d_key 64."""
    assert Favor(m).feature_dim(64) == DPFP(nu).feature_dim(64) == d_dot
    big = model("big-standard")
    assert big.model_dim // big.num_heads == 64
    for name in (f"big-performer-m{m}", f"big-dpfp{nu}"):
        if f"translation-{name}" in PRESETS:  # d_dot = 384 is in Table 6 alone
            attention = model(name).cross_attention
            assert isinstance(attention, FastWeightAttentionConfig)
            assert attention.feature_map.feature_dim(64) == d_dot


def test_the_big_model_has_the_parameters_of_the_recipe() -> None:
    """By hand: the table, then attention, feed-forward and layer norms of six encoder and six decoder layers.

    The recipe's own model has 73,728 more: its projections have biases.
    """
    attention, feed_forward, norm = 4 * 1024**2, 2 * 1024 * 4096 + 4096 + 1024, 2 * 1024
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    expected = 32_768 * 1024 + 6 * (encoder + decoder)
    assert expected == 209_838_080
    for name in ("standard", "linear", "dpfp2", "dpfp4", "performer-m256"):
        assert parameters(f"big-{name}") == expected


def test_the_small_models_differ_only_in_their_gates() -> None:
    expected = parameters("cpu-standard")
    assert expected == 4000 * 128 + 2 * (3 * 4 * 128**2 + 2 * (2 * 128 * 256 + 256 + 128) + 5 * 256)
    assert parameters("cpu-dpfp2") == expected
    # A write strength for each of the four heads of both decoder layers.
    assert parameters("cpu-dpfp2-delta") == expected + 2 * 4 * 128


@pytest.mark.parametrize("size", ["cpu", "long", "europarl", "big"])
def test_every_model_of_the_table_is_there(size: str) -> None:
    names = [name for name in PRESETS if name.startswith(f"translation-{size}-")]
    models = [model_of(PRESETS[name]) for name in names]
    assert models == [
        "standard", "linear", "performer-x1", "performer-x4", "performer-x8", "dpfp1", "dpfp2", "dpfp4", "dpfp2-delta",
    ]  # fmt: skip
    recipes = {replace(PRESETS[name].training, seed=0) for name in names}
    assert len(recipes) == 1, "every model has the same updates"


def test_attention_stands_where_it_should() -> None:
    standard, linear, delta = (model(f"cpu-{name}") for name in ("standard", "dpfp2", "dpfp2-delta"))
    assert {standard.encoder_attention, standard.decoder_attention, standard.cross_attention} == {
        SoftmaxAttentionConfig()
    }
    assert linear.encoder_attention == linear.decoder_attention == linear.cross_attention
    assert delta.encoder_attention == delta.cross_attention == linear.cross_attention
    assert isinstance(delta.decoder_attention, FastWeightAttentionConfig)
    assert isinstance(linear.decoder_attention, FastWeightAttentionConfig)
    assert isinstance(delta.decoder_attention.update_rule, DeltaRule)
    assert isinstance(linear.decoder_attention.update_rule, SumRule)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_plain_data(name: str) -> None:
    run, family = preset_named(name)
    assert run.preset == name
    assert family.__name__ == "fastweights.experiments.translation.presets"
    assert codec().from_plain(codec().to_plain(run)) == run
    assert followed_preset(run) == run.preset


def prepared(pairs: Path, **options: object) -> Run:
    return on_data(PRESETS["translation-cpu-linear"], DataOptions(data=str(pairs), **options))[0]  # type: ignore[arg-type]


def test_a_run_knows_its_pairs(pairs: Path) -> None:
    run = prepared(pairs, vocabulary_size=280)
    assert isinstance(run.task, TranslationConfig)
    assert (run.task.corpus, str(run.task.languages), run.task.model.vocabulary_size) == ("pairs", "en-de", 280)
    assert followed_preset(run) == run.preset
    assert followed_preset(replace(run, training=replace(run.training, seed=7))) == run.preset
    assert followed_preset(codec().changed(run, ["training.steps=7"])) is None
    assert followed_preset(codec().changed(run, ["model.dropout=0.5"])) is None
    assert prepared(pairs, vocabulary_size=280, source="de", target="en") != run


def test_a_small_text_gets_the_byte_pairs_it_has(pairs: Path) -> None:
    run = prepared(pairs)
    assert isinstance(run.task, TranslationConfig)
    assert 259 < run.task.model.vocabulary_size < 4000
    run.task.open(run.training, str(pairs))  # the run alone finds its pairs again


def test_what_does_not_fit_a_translator_is_refused(pairs: Path) -> None:
    with pytest.raises(ValueError, match="tokens: translators read byte pairs, not words; possible: --tokens bpe"):
        prepared(pairs, tokens="words")
    with pytest.raises(ValueError, match="target: expected another language than the source"):
        prepared(pairs, target="en")
    with pytest.raises(ValueError, match="nothing there is in fr"):
        prepared(pairs, target="fr")
    with pytest.raises(
        ValueError, match=r"unknown name 'translation-cpu-dpfp3' \(did you mean 'translation-cpu-dpfp"
    ) as error:
        preset_named("translation-cpu-dpfp3")
    assert len(str(error.value)) < 500
    with pytest.raises(
        ValueError, match=r"possible: translation-cpu-…, .*medium-…, cpu-…, cpu-long-…; `fastweights list` names"
    ):
        preset_named("qwerty")
