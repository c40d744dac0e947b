"""Records of translated documents that were never trained: given losses, and translations with wrong words."""

from dataclasses import asdict

from fastweights.evaluation.bleu import score_translations
from fastweights.experiments.documents.presets import preset
from fastweights.experiments.families import codec
from fastweights.experiments.records import Records
from fastweights.files import Json
from fastweights.runs.record import Record
from translation_records import REFERENCES, translations


def reading(loss: float, wrong: int) -> Json:
    """What is measured with this loss at every place and so many wrong sentences of every ten."""
    score = asdict(score_translations(translations(wrong), REFERENCES))
    tokens = [10] * 32
    return {
        "loss": loss,
        "sums": [10 * loss] * 32,
        "tokens": tokens,
        "bleu": score["bleu"],
        "statistics": score["statistics"],
    }


def records(carried: tuple[float, int], alone: tuple[float, int], seed: int = 1, *, pairs: str = "digest") -> Records:
    """The delta rule carried on and emptied; the first one, read sentence by sentence, is worse than both."""
    found = {}
    for model, kinds in (("delta", {"carried": carried, "alone": (3.0, 5)}), ("delta-alone", {"alone": alone})):
        run = codec().changed(preset("documents", model, seed=seed), [f"pairs={pairs}"])
        splits = {split: {kind: reading(*given) for kind, given in kinds.items()} for split in ("val", "test_a")}
        found[run] = Record(codec().to_plain(run), {"best_loss": 2.0, "steps": 9, "readings": splits}, {}, {})
    return found
