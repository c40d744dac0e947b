"""Verdicts, tables and figures of the experiments with pictures from records with given numbers."""

from collections.abc import Callable

import torch

from fastweights.experiments.images import images
from fastweights.experiments.images.claims import REVIEW, ours
from fastweights.experiments.images.image_memory import KEY_MAPS, LENGTHS, SIZES, encode
from fastweights.experiments.images.presets import runs_by_model
from fastweights.experiments.records import Records
from marked_records import record
from shown_figures import drawings_of, tables_of

PICTURES = encode(torch.rand(8, 16))
GOOD = ("nlms", "delta-l2", "delta-centred")


def records_of(accuracy: Callable[[str], float], error: Callable[[str, str], float]) -> Records:
    records = {}
    for (model,), run in runs_by_model():
        groups = {name: accuracy(model) for name in ("all", *map(str, range(5)))}
        errors = {
            name: {str(keys): {str(length): error(model, name) for length in LENGTHS} for keys in SIZES}
            for name in KEY_MAPS
        }
        memory = {"errors": errors, "stored": PICTURES, "retrieved": PICTURES}
        records[run] = record(
            run,
            {"valid": groups, "x1": groups, "x4": groups},
            image_memory=None if model == "softmax" else memory,
        )
    return records


EXPECTED = records_of(
    lambda model: 0.9 if model in GOOD else 0.6,
    lambda model, name: (0.3 if name == "dpfp" or model == "delta-centred" else 1.1) if model in GOOD else 0.9,
)


def verdicts(records: Records) -> list[str]:
    return [claim.judge(ours(records)).verdict for claim in REVIEW]


def test_all_hold_when_writes_that_land_are_ahead() -> None:
    assert verdicts(EXPECTED) == ["holds"] * 3


def test_none_holds_when_all_are_alike() -> None:
    assert verdicts(records_of(lambda _: 0.6, lambda *_: 0.5)) == ["does not hold"] * 3


def test_without_runs_nothing_is_decided() -> None:
    assert verdicts({}) == ["not run yet"] * 3
    assert [claim.judge(ours({})).verdict for claim in REVIEW] == ["not run yet"] * 3


def test_the_tables_have_errors_and_labels() -> None:
    memory, labels = tables_of(images, EXPECTED)
    assert len(memory.rows) == 6 * 2
    assert memory.rows[0][:3] == ("sum rule", "DPFP-1, 128", "0.900")
    assert len(labels.rows) == 7
    assert labels.rows[-1][:2] == ("delta, centred L2", "90.0 ± 0.0")
    assert [table.rows for table in tables_of(images, {})] == [(), ()]


def test_the_figures_have_a_row_for_each_memory() -> None:
    pictures, labels = drawings_of(images, EXPECTED)
    assert len(pictures.figure.axes) == 8 * 7
    assert len(labels.figure.axes[0].get_lines()) == 8
    (alone,) = drawings_of(images, {})
    assert alone.name == "image-labels"
