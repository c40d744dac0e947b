"""The translators of Table 1 by name: a size and a model; `--set` changes anything about them (Sec. 6.2, App. D).

`translation-big-dpfp2` is the paper's model with DPFP ν = 2; `translation-cpu-performer-m64` a small one for Multi30k
with m = 64 random features; `translation-long-…` trains it longer; `translation-europarl-…` is for longer sentences.
`-delta` puts the delta rule into the decoder's self-attention and leaves the sum rule elsewhere.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastweights.data.translation import TranslationCorpus, open_translation
from fastweights.data.translation_files import Languages
from fastweights.data.translation_tokeniser import JointBytePairs
from fastweights.experiments.options import DataOptions
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.experiments.translation.task import TranslationTask
from fastweights.feature_maps import DPFP, EluPlusOne, Favor, FeatureMap
from fastweights.memory import AttentionNormalisation, NoNormalisation
from fastweights.models.attention import AttentionConfig, FastWeightAttentionConfig, SoftmaxAttentionConfig
from fastweights.models.translator import TranslatorConfig
from fastweights.training.config import TrainingConfig
from fastweights.training.run import Run
from fastweights.training.task import Task
from fastweights.update_rules import DeltaRule, SumRule

CPU = Run(
    # Heads of 32: half the d_dot of the paper for the same ν.
    TranslationConfig(TranslatorConfig(4000), longest=128),
    TrainingConfig(
        steps=3000,
        batch_size=1250,
        learning_rate=3e-3,
        warmup_steps=250,
        clip_norm=1.0,
        beta2=0.98,
        log_every=50,
        evaluate_every=500,
    ),
)
SIZES = {
    "translation-cpu": CPU,
    # Eighteen epochs of Multi30k instead of seven.
    "translation-long": Run(
        TranslationConfig(TranslatorConfig(4000, dropout=0.2), longest=128), replace(CPU.training, steps=8000)
    ),
    # Sentences are twice as long as those of Multi30k, and there are twice as many to translate at every evaluation.
    "translation-europarl": replace(CPU, training=replace(CPU.training, steps=2000, evaluate_every=1000)),
    "translation-big": Run(
        # "transformer_vaswani_wmt_en_de_big" of the recipe; heads of 64.
        TranslationConfig(
            TranslatorConfig(
                32_768,
                model_dim=1024,
                num_heads=16,
                encoder_layers=6,
                decoder_layers=6,
                feed_forward_dim=4096,
                dropout=0.3,
            )
        ),
        # 3584 tokens on each of 3 GPUs, 16 parts: 45 epochs of 4.5 million pairs.
        TrainingConfig(
            steps=45_000,
            batch_size=172_032,
            learning_rate=1e-3,
            schedule="inverse-square-root",
            warmup_steps=4000,
            clip_norm=None,
            accumulation=16,
            beta2=0.98,
            evaluate_every=1000,
        ),
    ),
}


def _models(size: str) -> dict[str, tuple[AttentionConfig, AttentionConfig, AttentionConfig]]:
    """Every model of the table at a size: its attention in the encoder, in the decoder, and between them."""
    # The Performer has d_dot = 2m, DPFP 2ν d_key, and keys of the small models half as many components.
    features = (32, 128, 256) if size == "translation-big" else (16, 64, 128)
    maps: dict[str, FeatureMap] = {"linear": EluPlusOne()}
    # The literal map of the Performer reads next to nothing at the usual size of keys; this one approximates softmax.
    maps |= {f"performer-m{m}": Favor(num_features=m, stabilised=True) for m in features}
    maps |= {f"dpfp{nu}": DPFP(nu) for nu in (1, 2, 4)}
    everywhere: dict[str, AttentionConfig] = {"standard": SoftmaxAttentionConfig()}
    everywhere |= {name: _sum(feature_map) for name, feature_map in maps.items()}
    models = {name: (attention, attention, attention) for name, attention in everywhere.items()}
    # Not in the paper: the delta rule where the order of writes matters.
    delta = FastWeightAttentionConfig(DPFP(2), DeltaRule(), read_scale=1.0)
    models["dpfp2-delta"] = everywhere["dpfp2"], delta, everywhere["dpfp2"]
    return models


def _sum(feature_map: FeatureMap) -> FastWeightAttentionConfig:
    """The sum rule with attention normalisation, which makes every read an average: there is nothing to scale."""
    return FastWeightAttentionConfig(
        feature_map, SumRule(), NoNormalisation(), AttentionNormalisation(), read_scale=1.0
    )


def _presets() -> dict[str, Run]:
    presets = {}
    for size, run in SIZES.items():
        assert isinstance(run.task, TranslationConfig)
        for name, (encoder, decoder, cross) in _models(size).items():
            model = replace(run.task.model, encoder_attention=encoder, decoder_attention=decoder, cross_attention=cross)
            preset = f"{size}-{name}"
            presets[preset] = replace(run, task=replace(run.task, model=model), preset=preset)
    return presets


PRESETS: dict[str, Run] = _presets()


def on_data(run: Run, options: DataOptions) -> tuple[Run, Callable[[Run], Task[Any]]]:
    """A preset for the pairs that a user names, and what makes the task of this run."""
    if options.tokens not in (None, "bpe"):
        raise ValueError(f"tokens: translators read byte pairs, not {options.tokens}; possible: --tokens bpe")
    assert isinstance(run.task, TranslationConfig)
    languages = Languages(options.source or run.task.source, options.target or run.task.target)
    tokeniser = JointBytePairs(options.vocabulary_size or run.task.model.vocabulary_size)
    corpus = open_translation(options.data, languages, tokeniser, options.cache)
    if len(corpus.tokeniser) < tokeniser.vocabulary_size:
        # A small text has fewer byte pairs than were asked for; the size that a run names finds them again.
        corpus = open_translation(options.data, languages, JointBytePairs(len(corpus.tokeniser)), options.cache)

    def task(run: Run) -> Task[Any]:
        assert isinstance(run.task, TranslationConfig)
        return TranslationTask(run.task, run.training, corpus, options.data)

    return for_corpus(run, corpus, corpus_name(options.data)), task


def for_corpus(run: Run, corpus: TranslationCorpus, name: str) -> Run:
    """A preset for these pairs and their tokeniser."""
    return with_pairs(run, len(corpus.tokeniser), corpus.digest, corpus.languages, name)


def with_pairs(run: Run, vocabulary_size: int, pairs: str, languages: Languages, name: str) -> Run:
    """A preset for the pairs of this digest."""
    assert isinstance(run.task, TranslationConfig)
    model = replace(run.task.model, vocabulary_size=vocabulary_size)
    task = replace(run.task, model=model, pairs=pairs, source=languages.source, target=languages.target, corpus=name)
    return replace(run, task=task)


def corpus_name(data: str) -> str:
    """What a corpus is called in tables: the name of its folder or file."""
    return Path(data).resolve().name if Path(data).exists() else data


def with_pairs_of(run: Run, preset: str) -> Run:
    """A preset for the pairs of a run, and with its seed."""
    task, start = run.task, PRESETS[preset]
    assert isinstance(task, TranslationConfig)
    start = replace(start, training=replace(start.training, seed=run.training.seed))
    return with_pairs(start, task.model.vocabulary_size, task.pairs, task.languages, task.corpus)


def followed_preset(run: Run) -> str | None:
    """The preset that a run follows exactly, whatever its seed and its pairs; None if it was changed."""
    # Runs of 8,000 updates were called translation-cpu-… at first.
    names = (run.preset, run.preset.replace("translation-cpu-", "translation-long-"))
    return next((name for name in names if name in PRESETS and run == with_pairs_of(run, name)), None)
