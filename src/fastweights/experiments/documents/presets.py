"""The runs with documents by name: a memory in the decoder that is carried on, or emptied at every sentence."""

from collections.abc import Sequence
from dataclasses import replace

from fastweights.config import unknown
from fastweights.data.translation import open_translation
from fastweights.data.translation_tokeniser import JointBytePairs
from fastweights.experiments.documents.config import DocumentsConfig
from fastweights.experiments.translation import presets as translators
from fastweights.feature_maps import DPFP
from fastweights.memory import CentredL2
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.translator import TranslatorConfig
from fastweights.training.run import Run
from fastweights.update_rules import DeltaRule, GatedDeltaRule

SEEDS = (1, 2, 3)
DECODERS: dict[str, FastWeightAttentionConfig] = {
    "gated-centred": FastWeightAttentionConfig(DPFP(2), GatedDeltaRule(), CentredL2(), read_scale=1.0),
    "delta": FastWeightAttentionConfig(DPFP(2), DeltaRule(), read_scale=1.0),
}
"""The best memory of carried language models, and the paper's delta rule."""
ALONE = "-alone"
"""Behind the name of a model whose memory is emptied at every sentence."""
TRAINING = replace(translators.CPU.training, steps=1000, batch_size=24)


def preset(name: str, model: str | None = None, rule: str | None = None, seed: int = 1) -> Run:
    """DPFP-2 with the sum rule in encoder and cross-attention, as in Table 1, and one of the memories as decoder."""
    if rule is not None:
        raise ValueError(f"rule: the models of {name} name their rule, as in --model delta; got {rule!r}")
    model = model or "gated-centred"
    if (decoder := model.removesuffix(ALONE)) not in DECODERS:
        raise ValueError(f"model: {unknown('name', model, MODELS)}")
    translator = translators.PRESETS["translation-cpu-dpfp2"].task.model  # type: ignore[attr-defined]
    assert isinstance(translator, TranslatorConfig)
    translator = replace(translator, decoder_attention=DECODERS[decoder])
    config = DocumentsConfig(translator, carried=model == decoder)
    return Run(config, replace(TRAINING, seed=seed), preset=f"documents-{model}")


MODELS = tuple(f"{decoder}{end}" for decoder in DECODERS for end in ("", ALONE))
DECIDING = MODELS[:2]
"""What `fastweights reproduce` runs; tables show the others too if they were run."""


def for_data(run: Run, data: str | None) -> Run:
    """The run for the pairs in a folder: their digest is a part of it."""
    assert isinstance(run.task, DocumentsConfig)
    tokeniser = JointBytePairs(run.task.model.vocabulary_size)
    corpus = open_translation(run.task.given(data), run.task.languages, tokeniser)
    return replace(run, task=replace(run.task, pairs=corpus.digest))


def grid(seeds: Sequence[int] = SEEDS, models: Sequence[str] = MODELS) -> list[tuple[str, Run]]:
    """Runs by their model, for no pairs yet."""
    return [(model, preset("documents", model, seed=seed)) for seed in seeds for model in models]
