"""`fastweights run`."""

from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg
from tyro.extras import literal_type_from_choices

from fastweights.cli.results import results_folder
from fastweights.experiments import runnable
from fastweights.experiments.options import OptionalPath, OptionalText

if TYPE_CHECKING:
    from fastweights.runs.record import Record
    from fastweights.training.run import Run

    Runnable = str
else:
    Runnable = literal_type_from_choices(tuple(runnable()))


def run(
    setting: Positional[Runnable],
    model: OptionalText = None,
    rule: OptionalText = None,
    changes: Annotated[tuple[str, ...], arg(name="set", metavar="FIELD=VALUE"), UseAppendAction] = (),
    data: OptionalText = None,
    results: OptionalPath = None,
) -> None:
    """Train one small model on one task and record how it went.

    Args:
        setting: capacity (every key once) and overwriting (keys come again) are the paper's; parity, counting and words
            track states, rebinding and recall ask for variables, questions is bAbI, images has labels that change,
            documents translates with a memory that goes on.
        model: where to start from. Capacity and overwriting: softmax, elu, dpfp1 … dpfp3, favor64 … favor512, tanh;
            dpfp1 if absent. Documents: gated-centred or delta, and either with -alone. The others: softmax, sum, delta,
            delta-l2, delta-centred, nlms, gated-delta, kimi-delta, …
        rule: capacity and overwriting: sum, delta, schlag2021 or schlag2021-nolayernorm; the usual one if absent.
        changes: change any field of the run, as in --set num_keys=50 --set attention.feature_map.nu=2.
        data: questions: the folder of bAbI; images: that of the IDX files of MNIST, or drawn, which needs no files;
            documents: a folder of sentence pairs in order.
        results: folder for the record; results/ in the repository, fastweights-results/ elsewhere.
    """
    from importlib import import_module

    from fastweights.experiments.carry_out import carry_out
    from fastweights.experiments.families import codec
    from fastweights.experiments.records import load
    from fastweights.runs.display import Display, ending
    from fastweights.runs.record import check_results_folder, record_path

    results = results_folder(results)
    check_results_folder(results)
    presets = import_module(f"{runnable()[setting]}.presets")
    wanted = codec().changed(presets.preset(setting, model, rule), changes)
    if hasattr(presets, "for_task"):
        wanted = codec().changed(presets.for_task(wanted, model, rule), changes)
    if hasattr(presets, "for_data"):
        wanted = presets.for_data(wanted, data)
    record = load(results).get(wanted)
    if record is not None and data is not None:
        refuse_other_data(wanted, record, data)
    if record is None:
        record = carry_out(wanted, results, data=data, display=Display.on_terminal())
    name = codec().name(wanted)
    if record is None:
        raise ValueError(f"another process is working on {name}")
    print(f"{wanted.slug}: {ending(record.result)}")
    print(f"The record is {record_path(results, name)}")
    print(f"Try next: fastweights report --results {results}")


def refuse_other_data(run: "Run", record: "Record", data: str) -> None:
    """Raise a ValueError if a record tells of other data than what is given now, which is read for that."""
    known = record.result.get("data")
    if known is not None and known != run.task.open(run.training, data).summary([]).get("data"):
        raise ValueError(f"data: {run.slug} has a record on other data than {data}; name another folder with --results")
