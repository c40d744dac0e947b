"""Claims about memories of pictures, judged by errors without training and by labels that change."""

from dataclasses import dataclass, field

from fastweights.experiments.claim import NOT_RUN, Claim, Finding, decide
from fastweights.experiments.images.image_memory import LENGTHS
from fastweights.experiments.images.presets import errors_of, memories, scores
from fastweights.experiments.records import Records
from fastweights.experiments.scores import AccuracyScores, percent, seeds_missing
from fastweights.files import Json
from fastweights.runs.display import number

KEYS = 32
"""Keys of the memory that is judged: half as many as ELU+1 has features, a quarter of DPFP-1's."""
LANDING = ("nlms", "delta-l2", "delta-centred")
"""Memories whose write replaces what its key retrieves in full, at full strength."""


@dataclass(frozen=True)
class PictureScores:
    """The accuracies of the models, and what was measured of untrained memories."""

    labels: AccuracyScores
    memories: dict[str, list[Json]] = field(default_factory=dict)

    def error(self, model: str, feature_map: str, length: int) -> float | None:
        """The mean error of a model with `KEYS` keys; None without a run."""
        return errors_of(self.memories[model], feature_map, KEYS, length) if model in self.memories else None


def ours(records: Records) -> PictureScores:
    """What our runs reached."""
    return PictureScores(scores(records), memories(records))


def judge_landing(found: PictureScores) -> Finding:
    held, evidence = [], []
    for length in LENGTHS[1:]:
        errors = {model: found.error(model, "dpfp", length) for model in ("sum", "delta", *LANDING)}
        if None in errors.values():
            return NOT_RUN
        known = {model: error for model, error in errors.items() if error is not None}
        held.append(max(known[model] for model in LANDING) < min(known["sum"], known["delta"]))
        evidence.append(f"{length} ×: " + ", ".join(f"{model} {number(error)}" for model, error in known.items()))
    return decide(held, "; ".join(evidence))


def judge_centring(found: PictureScores) -> Finding:
    held, evidence = [], []
    for length in LENGTHS:
        errors = [found.error(model, "elu", length) for model in ("delta-centred", "delta-l2")]
        if None in errors:
            return NOT_RUN
        centred, plain = (error for error in errors if error is not None)
        held.append(centred < plain / 2)
        evidence.append(f"{length} ×: {number(centred)} against {number(plain)}")
    return decide(held, "; ".join(evidence))


def judge_labels(found: PictureScores) -> Finding:
    """Each of the three against sum normalisation, seed by seed."""
    base = found.labels.of(("delta",), "x4")
    if not base:
        return NOT_RUN
    held, evidence = [], [f"delta {percent(base)}"]
    for model in LANDING:
        values = found.labels.of((model,), "x4")
        if values:
            held.append(min(values) > max(base))
            evidence.append(f"{model} {percent(values)}")
    if len(held) < len(LANDING):
        return NOT_RUN
    few = seeds_missing(found.labels, [(model,) for model in ("delta", *LANDING)])
    return decide(held, ", ".join(evidence) + few)


REVIEW: tuple[Claim[PictureScores], ...] = (
    Claim(
        "writes that land keep pictures",
        "Sec. 4.2, asked by a review",
        "High-dimensional values can be stored and overwritten; a write should replace what its key retrieves.",
        f"{KEYS} keys with DPFP-1, {' and '.join(map(str, LENGTHS[1:]))} × as many writes, no training: the error of "
        "L2, centred L2 and NLMS below those of the sum rule and of sum normalisation",
        judge_landing,
    ),
    Claim(
        "centring takes out what positive keys share",
        "asked by a review",
        "Keys of ELU+1 have a direction in common along which every write changes what all other keys retrieve.",
        f"{KEYS} keys with ELU+1, no training: the error of centred L2 less than half of that of L2 at every number of "
        "writes",
        judge_centring,
    ),
    Claim(
        "labels that change are learned best by writes that land",
        "asked by a review",
        "Sum normalisation could have competitors.",
        "4 × the trained length: L2, centred L2 and NLMS each right more often with their worst seed than sum "
        "normalisation with its best",
        judge_labels,
    ),
)
