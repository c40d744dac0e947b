"""The language models of Tables 2-5 by name: a size and a model; `--set` changes anything about them.

`small-linear-delta` is the small configuration with ELU+1 and the delta rule. `-attnnorm` adds attention normalisation,
`-nopos` drops the positions, `-carried` keeps the memory from one segment to the next; `transformer-relative` is
Transformer-XL without its memory. `-l2`, `-centred` and `-step`
(NLMS) stand for other normalisations of a write, `-gated` for the gated delta rule; `gated-delta` and `kimi-delta` are
these models as they were published, without positions, with `-conv` and without their convolution and output gate.
Behind `-carried`, `-resets`, `-columns` and `-rewritten` change how long memories last in training (`CARRYINGS`), and
`-published` trains the sum rule with the gradient that was published.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fastweights.data.text.corpus import PUBLIC, Corpus, open_corpus
from fastweights.data.text.tokenizers import TOKENIZERS, BytePairs, Tokenizer
from fastweights.experiments import split_preset
from fastweights.experiments.language_models.config import Carrying, LanguageModellingConfig
from fastweights.experiments.language_models.task import LanguageModelTask
from fastweights.experiments.options import DataOptions, refuse_languages
from fastweights.feature_maps import DPFP, EluPlusOne, Favor, FeatureMap, Identity, SiLU
from fastweights.layers import GatedNorm, ShortConvolution
from fastweights.memory import AttentionNormalisation, CentredL2, L2Normalisation, NoNormalisation
from fastweights.models.attention import (
    AttentionConfig,
    FastWeightAttentionConfig,
    RelativeAttentionConfig,
    SoftmaxAttentionConfig,
)
from fastweights.models.language_model import LanguageModelConfig
from fastweights.runs.display import Display
from fastweights.training.config import TrainingConfig
from fastweights.training.run import Run
from fastweights.training.task import Task
from fastweights.update_rules import DeltaRule, GatedDeltaRule, KimiDeltaRule, NormalisedStep, SumRule, UpdateRule

DATASETS = {"cpu": "wikitext-2", "cpu-long": "europarl-en", "small": "wikitext-103", "medium": "wikitext-103"}
"""The text on which the models of each size are trained for the tables."""
EUROPARL_WORDS = 51_322
"""Words of the debates of the European Parliament from 2006 to 2012 that come up at least three times, and `<unk>`."""
EVALUATIONS = 5
"""Validations of a short run; the long ones of the paper have one every 4000 steps."""


def _size(
    model: LanguageModelConfig,
    segment_length: int,
    batch_size: int,
    steps: int,
    warmup_steps: int = 2000,
    learning_rate: float = 2.5e-4,
    test_stride: int = 1,
    evaluations: int = EVALUATIONS,
) -> Run:
    task = LanguageModellingConfig(model, segment_length=segment_length, test_stride=test_stride)
    training = TrainingConfig(
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        warmup_steps=warmup_steps,
        evaluate_every=min(4000, max(steps // evaluations, 1)),
    )
    return Run(task, training)


def _model(model_dim: int, num_heads: int, num_layers: int, feed_forward_dim: int) -> LanguageModelConfig:
    """A model for the 267,735 words of WikiText-103; another text fills in its own number."""
    return LanguageModelConfig(267_735, model_dim, num_heads, num_layers, feed_forward_dim)


CPU_MODEL = replace(_model(128, 8, 4, 512), cutoffs=(1000, 4000, 12_000))
"""Heads as in the small configuration, a quarter of its layers and of their width."""

SIZES: dict[str, Run] = {
    "small": _size(_model(128, 8, 16, 2048), segment_length=256, batch_size=96, steps=500_000),
    "medium": _size(_model(256, 8, 16, 2048), segment_length=384, batch_size=56, steps=400_000),
    "cpu": _size(
        CPU_MODEL,
        segment_length=256,
        batch_size=16,
        steps=1250,
        warmup_steps=100,
        learning_rate=1e-3,
        test_stride=64,
    ),
    # The model of cpu: 15 million words of the debates, each read once, with the learning rate that is best in a short
    # sweep. A quarter of an hour to an hour on one core.
    "cpu-long": _size(
        CPU_MODEL,
        segment_length=256,
        batch_size=16,
        steps=3660,
        warmup_steps=250,
        learning_rate=2e-3,
        test_stride=64,
        evaluations=10,
    ),
}


def _sum(feature_map: FeatureMap) -> FastWeightAttentionConfig:
    """Linear Transformers divide by z·q (Eq. 19) and do not normalise keys; the delta rule does the opposite."""
    return FastWeightAttentionConfig(feature_map, SumRule(), NoNormalisation(), AttentionNormalisation())


def _delta(
    feature_map: FeatureMap, attention_normalisation: AttentionNormalisation | None = None
) -> FastWeightAttentionConfig:
    return FastWeightAttentionConfig(feature_map, DeltaRule(), attention_normalisation=attention_normalisation)


WRITES: dict[str, FastWeightAttentionConfig] = {
    "delta-l2": FastWeightAttentionConfig(normalisation=L2Normalisation()),
    "delta-centred": FastWeightAttentionConfig(normalisation=CentredL2()),
    "delta-step": FastWeightAttentionConfig(update_rule=NormalisedStep()),
    "gated": FastWeightAttentionConfig(update_rule=GatedDeltaRule()),
    "gated-centred": FastWeightAttentionConfig(update_rule=GatedDeltaRule(), normalisation=CentredL2()),
}
"""Ways to write that the paper does not have, for any map."""


def _published(name: str, rule: UpdateRule, gate: GatedNorm) -> dict[str, FastWeightAttentionConfig]:
    """A successor without its convolution and output gate, and with them; the convolution ends with SiLU itself."""
    plain = FastWeightAttentionConfig(SiLU(), rule, L2Normalisation())
    whole = replace(plain, feature_map=Identity(), convolution=ShortConvolution(), output_gate=gate)
    return {name: plain, f"{name}-conv": whole}


SUCCESSORS: dict[str, FastWeightAttentionConfig] = {
    **_published("gated-delta", GatedDeltaRule(), GatedNorm()),
    **_published("kimi-delta", KimiDeltaRule(), GatedNorm(activation="sigmoid", rank="head")),
}


CARRYINGS: dict[str, Carrying] = {
    "resets": Carrying(reset_chance=1 / 8),
    "columns": Carrying(reset_every=8),
    "rewritten": Carrying(rewritten=8),
}
"""Ways to carry a memory in training, which lasts eight segments in each of them, on average or always."""
CARRIED_OTHERWISE = {
    **{
        f"{name}-{way}": (name, carrying)
        for name in ("linear-delta-nopos-carried", "linear-delta-centred-nopos-carried")
        for way, carrying in CARRYINGS.items()
    },
    "linear-sum-nopos-carried-published": ("linear-sum-nopos-carried", Carrying(published_gradient=True)),
}
"""By its name, the model whose memory is carried in another way, and the way."""


def _models(size: Run) -> dict[str, tuple[AttentionConfig, bool, bool]]:
    """Every model of the tables: its attention, whether it has positions, and whether its memory is carried on."""
    assert isinstance(size.task, LanguageModellingConfig)
    key_dim = size.task.model.model_dim // size.task.model.num_heads
    linear, dpfp = EluPlusOne(), DPFP(nu=1)
    # The Performer of Table 2 has as many features as keys have components, that of Table 5 twice as many.
    performer, wide = Favor(num_features=key_dim // 2), Favor(num_features=key_dim)
    normalised = AttentionNormalisation()
    models: dict[str, tuple[AttentionConfig, bool, bool]] = {
        "transformer": (SoftmaxAttentionConfig(), True, False),
        "transformer-nopos": (SoftmaxAttentionConfig(), False, False),
        "transformer-relative": (RelativeAttentionConfig(memory_length=0), False, False),
        "transformer-xl": (RelativeAttentionConfig(size.task.segment_length), False, True),
        "linear-sum": (_sum(linear), True, False),
        "linear-sum-nopos": (_sum(linear), False, False),
        "linear-sum-nopos-carried": (_sum(linear), False, True),
        "linear-delta": (_delta(linear), True, False),
        "linear-delta-nopos": (_delta(linear), False, False),
        "linear-delta-nopos-carried": (_delta(linear), False, True),
        "linear-delta-attnnorm": (_delta(linear, normalised), True, False),
        "linear-delta-attnnorm-nopos": (_delta(linear, normalised), False, False),
        "performer-sum": (_sum(performer), True, False),
        "performer-delta": (_delta(performer), True, False),
        "performer-wide-sum": (_sum(wide), True, False),
        "performer-wide-delta": (_delta(wide), True, False),
        "dpfp-sum": (_sum(dpfp), True, False),
        "dpfp-delta": (_delta(dpfp), True, False),
        "dpfp-delta-nopos": (_delta(dpfp), False, False),
        "dpfp-delta-nopos-carried": (_delta(dpfp), False, True),
    }
    for name, attention in {
        **{f"linear-{name}-nopos": replace(base, feature_map=linear) for name, base in WRITES.items()},
        **{f"dpfp-{name}-nopos": replace(base, feature_map=dpfp) for name, base in WRITES.items()},
        **SUCCESSORS,
    }.items():
        models |= {name: (attention, False, False), f"{name}-carried": (attention, False, True)}
    return models


def _presets() -> dict[str, Run]:
    presets = {}
    for size_name, size in SIZES.items():
        assert isinstance(size.task, LanguageModellingConfig)
        for name, (attention, positions, carried) in _models(size).items():
            model = replace(size.task.model, attention=attention, positions=positions)
            training = size.training
            if name == "transformer-xl" and size_name in ("small", "medium"):
                # The published run had half the steps and half the warm-up of the others.
                training = replace(training, steps=training.steps // 2, warmup_steps=training.warmup_steps // 2)
            task = replace(size.task, model=model, carry_state=carried)
            presets[f"{size_name}-{name}"] = Run(task, training, preset=f"{size_name}-{name}")
        for name, (usual, carrying) in CARRIED_OTHERWISE.items():
            run = presets[f"{size_name}-{usual}"]
            assert isinstance(run.task, LanguageModellingConfig)
            full_name = f"{size_name}-{name}"
            presets[full_name] = replace(run, task=replace(run.task, carrying=carrying), preset=full_name)
    return presets


PRESETS: dict[str, Run] = _presets()


def on_data(run: Run, options: DataOptions) -> tuple[Run, Callable[[Run], Task[Any]]]:
    """A preset for the text that a user names, and what makes the task of this run."""
    refuse_languages(options)
    tokenizer, display = _tokenizer(options.tokens or "words", options.vocabulary_size), Display.on_terminal()
    with display.shown():
        corpus = open_corpus(options.data, tokenizer, options.cache, display.reads(f"{options.data}: reading the text"))

    def task(run: Run) -> Task[Any]:
        assert isinstance(run.task, LanguageModellingConfig)
        return LanguageModelTask(run.task, run.training, corpus, options.data)

    return for_corpus(run, corpus), task


def _tokenizer(name: str, vocabulary_size: int | None) -> Tokenizer:
    if vocabulary_size is None:
        return TOKENIZERS[name]()
    if name != "bpe":
        raise ValueError(f"vocabulary_size: only byte pairs have one, not {name}; possible: --tokens bpe")
    return BytePairs(vocabulary_size)


def for_text(run: Run, vocabulary_size: int, text: str) -> Run:
    """A preset for the text of this digest."""
    assert isinstance(run.task, LanguageModellingConfig)
    model = replace(run.task.model, vocabulary_size=vocabulary_size)
    return replace(run, task=replace(run.task, model=model, text=text))


def for_corpus(run: Run, corpus: Corpus) -> Run:
    """A preset for this text."""
    return for_text(run, len(corpus.vocabulary), corpus.digest)


def is_unchanged(run: Run) -> bool:
    """True if a run follows its preset exactly, on the text that the tables are about."""
    if run.preset not in PRESETS or not isinstance(run.task, LanguageModellingConfig):
        return False
    return run == for_text(PRESETS[run.preset], words_of(size_of(run)), run.task.text)


def with_usual_seed(run: Run) -> Run:
    """The run with the seed of the presets, for tables of several seeds."""
    return replace(run, training=replace(run.training, seed=SIZES["cpu"].training.seed))


def size_of(run: Run) -> str:
    """cpu, cpu-long, small or medium."""
    return split_preset(run.preset, SIZES)[0]


def model_of(run: Run) -> str:
    """The name of a run's model at every size."""
    return split_preset(run.preset, SIZES)[1]


def words_of(size: str) -> int:
    """The number of words of the text on which the models of a size are compared."""
    text = DATASETS[size]
    return PUBLIC[text].vocabulary_size if text in PUBLIC else EUROPARL_WORDS
