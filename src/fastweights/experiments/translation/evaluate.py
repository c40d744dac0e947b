"""Measuring a trained translator on a test set, as `fastweights evaluate` does: BLEU, chrF and speed."""

import time

from fastweights.data.translation import open_translation
from fastweights.data.translation_files import TEST
from fastweights.data.translation_tokeniser import JointBytePairs
from fastweights.evaluation.bleu import read_lines, score_translations, write_lines
from fastweights.evaluation.translate import Search, translate
from fastweights.experiments.load import source_of
from fastweights.experiments.options import EvaluateOptions
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.experiments.translation.saved import load_translator, tokeniser_of
from fastweights.files import Json
from fastweights.runs.display import Display
from fastweights.training.distributed import Processes

ONLY_FOR_LANGUAGE_MODELS = ("context", "stride", "length", "reach", "batch_size")
KEPT = ("sentences", "bleu", "brevity_penalty", "signature", "chrf", "chrf_signature")
"""Of a score, in the folder of the run."""


def evaluate(options: EvaluateOptions, display: Display) -> Json:
    """Translate a test set, score it, keep the translations, and return what was measured."""
    options.refuse(ONLY_FOR_LANGUAGE_MODELS, "a translator")
    if options.limit is not None and options.limit < 1:
        raise ValueError(f"limit: expected at least 1 sentence, got {options.limit}")
    model, task, checkpoint = load_translator(options.run, options.checkpoint)
    tokeniser = tokeniser_of(options.run)
    split, sources, references = _sentences(options, task)
    beams = task.beams if options.beam is None else options.beam
    penalty = task.length_penalty if options.length_penalty is None else options.length_penalty
    search = Search(beams, penalty)
    model.to(Processes.device_named(options.device))
    display.shows("sentence", lambda loss: {})
    started, translations = time.monotonic(), []
    with display.shown():
        for found in translate(model, tokeniser, sources, search):
            translations.append(found.text)
            display.count(len(translations), len(sources))
    speed = len(sources) / (time.monotonic() - started)
    score = score_translations(translations, references)
    penalised = f", length penalty {search.length_penalty:g}" if search.beams > 1 else ""
    file = options.run / f"{split}.beam{search.beams}.{task.target}"
    write_lines(file, translations)
    display.say(
        f"{options.run}: {split} BLEU {score.bleu:.2f} (brevity penalty {score.brevity_penalty:.3f}, "
        f"{score.signature}), chrF {score.chrf:.2f}; beam {search.beams}{penalised}; "
        f"{speed:.1f} sentences/s; checkpoint of step {checkpoint.step}; translations in {file}"
    )
    return {
        "split": split,
        "step": checkpoint.step,
        **{name: getattr(score, name) for name in KEPT},
        "beams": search.beams,
        "length_penalty": search.length_penalty,
        "sentences_per_second": round(speed, 2),
    }


def _sentences(options: EvaluateOptions, task: TranslationConfig) -> tuple[str, list[str], list[str]]:
    """The name of what is translated, its sentences and their references."""
    if options.reference is not None:
        files = options.reference
        lines = [read_lines(file) for file in files]
        if len(lines[0]) != len(lines[1]):
            raise ValueError(
                f"{files[0]} has {len(lines[0])} lines and {files[1]} has {len(lines[1])}: expected as many"
            )
        name = files[0].name.partition(".")[0]
    else:
        data = options.data or source_of(options.run)
        corpus = open_translation(data, task.languages, JointBytePairs(task.model.vocabulary_size), options.cache)
        if corpus.digest != task.pairs:
            raise ValueError(
                f"{options.run}: trained on other pairs than {data}; another test set is --reference SOURCE TARGET"
            )
        name = options.split if options.split != TEST or TEST in corpus.splits else corpus.test_names[0]
        lines = list(corpus.lines(name, task.joined))
    return name, lines[0][: options.limit], lines[1][: options.limit]
