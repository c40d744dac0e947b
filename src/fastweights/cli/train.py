"""`fastweights train`."""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import UseAppendAction, arg

from fastweights.cli.results import results_folder, set_threads
from fastweights.experiments.options import DataOptions, Device, OptionalInt, OptionalPath, OptionalText, optional

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastweights.training.run import Run
    from fastweights.training.task import Task


@dataclass(frozen=True, kw_only=True)
class TrainOptions(DataOptions):
    """Train a language model or a translator. Run the same command again to resume a run that was stopped."""

    out: Path
    """Folder of the run."""
    preset: OptionalText = None
    """Model and recipe, such as cpu-linear-delta or translation-cpu-dpfp2; `fastweights list` shows them all."""
    weights_of: Annotated[Path | None, optional("PATH", "from")] = None
    """Instead of a preset: the folder of a language model's run, to continue with its weights and its recipe."""
    set: Annotated[tuple[str, ...], arg(metavar="FIELD=VALUE")] = ()
    """Changes to the preset as FIELD=VALUE: training.steps=200, model.attention.feature_map.nu=2."""
    when_not_finite: Annotated[Literal["stop", "skip"], arg(name="on-nan", aliases=("--when-not-finite",))] = "stop"
    """Stop, or skip the step, when a loss or gradient is NaN or infinite; it never reaches the weights."""
    save_every_steps: int = 1000
    """Write a checkpoint after this many steps, or …"""
    save_every_seconds: float = 300.0
    """… after this many seconds, whichever comes first."""
    device: Device = "auto"
    threads: OptionalInt = None
    """CPU threads; losses are the same to the last bit only with the same number."""
    results: OptionalPath = None
    """Folder for the record; results/ in the repository, fastweights-results/ elsewhere."""


def train(options: Annotated[UseAppendAction[TrainOptions], arg(name="")]) -> None:
    """Train a language model or a translator. Run the same command again to resume a run that was stopped."""
    from fastweights.experiments.families import codec
    from fastweights.runs.display import Display
    from fastweights.runs.record import check_results_folder, write_record
    from fastweights.training.config import CheckpointPolicy
    from fastweights.training.distributed import Processes
    from fastweights.training.execute import Execution

    set_threads(options.threads)
    results = results_folder(options.results)
    check_results_folder(results)
    prepare = _start(options)  # a mistake here should not cost the time to read the text
    policy = CheckpointPolicy(
        options.save_every_steps, options.save_every_seconds, when_not_finite=options.when_not_finite
    )
    with Processes.join(options.device) as processes:
        prepared, make_task = prepare()
        run = codec().changed(prepared, options.set)
        task = make_task(run)
        display = Display.on_terminal(quiet=not processes.first).shows(task.unit, task.shown, task.shown_validation)
        execution = Execution(codec(), processes, policy, display)
        try:
            with display.shown():
                record, ending = execution.record(run, task, options.out, measured=False)
        except FloatingPointError as error:
            raise ValueError(f"{options.out}: {error}") from error
        if record is not None:
            write_record(results, codec().name(run), record)
    if ending is None:
        display.say(f"{options.out}: this run is finished; its result is in {options.out / 'result.json'}")
    elif ending.finished:
        advice = f"; try `fastweights {task.try_next} {options.out}`" if task.try_next else ""
        display.say(f"{options.out}: finished{advice}")
    else:
        number = signal.Signals(ending.signal or signal.SIGTERM)
        display.say(f"{options.out}: stopped by {number.name} after step {ending.progress.step}, all of it saved")
        sys.exit(128 + number)


def _start(options: TrainOptions) -> "Callable[[], tuple[Run, Callable[[Run], Task[Any]]]]":
    """A function that prepares the run and its task: from a preset and data, or from the weights of another run."""
    from fastweights.experiments.families import module_for, preset_named
    from fastweights.experiments.load import read_run

    if (options.preset is None) == (options.weights_of is None):
        raise ValueError("preset: expected either a preset or, with --from, a run to continue")
    if options.preset is not None:
        start, family = preset_named(options.preset)
        return lambda: family.on_data(start, options)
    assert options.weights_of is not None
    path = options.weights_of
    continued = module_for(read_run(path).task, "continued")
    if continued is None:
        raise ValueError(f"{path}: runs of this task cannot be continued; possible: those of language models")
    return lambda: continued.continue_from(path, options)
