"""What is said about translation with a memory of the sentences before, judged by BLEU."""

from fastweights.evaluation.bootstrap import compare_statistics
from fastweights.experiments.claim import Claim, Finding, decide
from fastweights.experiments.documents.documents import LABELS, SPLITS, Readings, readings
from fastweights.experiments.documents.presets import ALONE

ours = readings


def judge_carried(found: Readings) -> Finding:
    """Each memory that was trained both ways, on both texts."""
    held: list[bool | None] = []
    evidence = []
    for decoder, label in LABELS.items():
        carried, alone = found.get((decoder, "carried")), found.get((f"{decoder}{ALONE}", "alone"))
        for split in SPLITS if carried and alone else ():
            first, second = ([one[split]["statistics"] for one in each] for each in (alone or (), carried or ()))
            comparison = compare_statistics(first, second)
            held.append(comparison.difference > 0 if comparison.decided() else None)
            evidence.append(f"{label}, {split}: {comparison.difference:+.1f} BLEU, p = {comparison.p_value:.3f}")
    return decide(held, "; ".join(evidence))


LATER_WORK: tuple[Claim[Readings], ...] = (
    Claim(
        "a memory of the document helps",
        "Maruf and Haffari (2018)",
        "Translation gains from a memory of the other sentences of a document.",
        "more BLEU of the model whose memory is carried on than of the one whose memory is emptied at every sentence, "
        "on valid and test; a difference counts where the paired bootstrap has p < 0.05",
        judge_carried,
    ),
)
