"""Records of translators that were never trained: translations with a known number of wrong words."""

from dataclasses import asdict, replace

from fastweights.data.translation_files import Languages
from fastweights.evaluation.bleu import score_translations
from fastweights.experiments.families import codec
from fastweights.experiments.translation.presets import PRESETS, with_pairs
from fastweights.runs.record import Record, rounded
from fastweights.training.run import Run

CORPUS = "pairs en-de, 3,000 updates"
REFERENCES = [f"ein Hund läuft über die grüne Wiese Nummer {number} ." for number in range(30)]


def run_of(model: str, seed: int, *changes: str) -> Run:
    """The run of a preset for CPUs."""
    run = with_pairs(PRESETS[f"translation-cpu-{model}"], 4000, "digest", Languages("en", "de"), "pairs")
    return codec().changed(replace(run, training=replace(run.training, seed=seed)), changes)


def translations(wrong: int) -> list[str]:
    """The references with a wrong word in the first so many of every ten, or in the last if there is a minus."""
    places = range(wrong) if wrong >= 0 else range(10 + wrong, 10)
    return [line.replace("grüne", "rote") if n % 10 in places else line for n, line in enumerate(REFERENCES)]


def record(wrong: int, *, measured: bool = True) -> Record:
    """What a model with so many wrong sentences of every ten leaves."""
    score = rounded(asdict(score_translations(translations(wrong), REFERENCES)))
    scores = {"scores": {"val": score, "test_a": score, "test_b": score}} if measured else {}
    result = {"best_loss": 0.5, "steps": 8000, "seconds": 60.0, **scores}
    return Record(codec().to_plain(run_of("linear", 1)), result, {}, {})
