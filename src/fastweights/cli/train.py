"""`fastweights train`."""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import OmitArgPrefixes, UseAppendAction

from fastweights.cli.results import results_folder, set_threads

if TYPE_CHECKING:
    from fastweights.data.text.tokenizers import Splitter


@dataclass(frozen=True)
class TrainOptions:
    """Train a language model on a text. Run the same command again to resume a run that was stopped."""

    preset: str
    """Model and recipe, for instance cpu-linear-delta; an unknown name tells which there are."""
    data: str
    """A folder with train.txt, valid.txt and test.txt, a text file, or wikitext-2 or wikitext-103."""
    out: Path
    """Folder of the run."""
    tokens: Literal["words", "characters", "bpe"] = "words"
    """What the text is split into."""
    vocabulary_size: int | None = None
    """Tokens of a byte-pair vocabulary; 8192 if absent."""
    set: tuple[str, ...] = ()
    """Changes to the preset as FIELD=VALUE: training.steps=200, model.attention.feature_map.nu=2."""
    when_not_finite: Literal["stop", "skip"] = "stop"
    """What to do when a loss or gradient is not finite; it never reaches the weights."""
    save_every_steps: int = 1000
    save_every_seconds: float = 300.0
    device: str = "auto"
    threads: int | None = None
    """CPU threads; losses are the same to the last bit only with the same number."""
    cache: Path | None = None
    """Folder for tokenised texts; by default fastweights in the user's cache folder."""
    results: Path | None = None
    """Folder for the record; results/ in the repository, fastweights-results/ elsewhere."""


def train(options: OmitArgPrefixes[UseAppendAction[TrainOptions]]) -> None:
    """Train a language model on a text. Run the same command again to resume a run that was stopped."""
    from fastweights.data.text.corpus import open_corpus
    from fastweights.experiments.families import codec
    from fastweights.experiments.language_models.config import LanguageModellingConfig
    from fastweights.experiments.language_models.presets import for_corpus, preset
    from fastweights.experiments.language_models.task import LanguageModelTask
    from fastweights.runs.display import Display
    from fastweights.runs.record import check_results_folder, write_record
    from fastweights.training.config import CheckpointPolicy
    from fastweights.training.distributed import Processes
    from fastweights.training.execute import Execution

    set_threads(options.threads)
    results = results_folder(options.results)
    check_results_folder(results)
    start = preset(options.preset)  # a mistake here should not cost the time to read the text
    policy = CheckpointPolicy(
        options.save_every_steps, options.save_every_seconds, when_not_finite=options.when_not_finite
    )
    with Processes.join(options.device) as processes:
        corpus = open_corpus(options.data, _splitter(options.tokens, options.vocabulary_size), options.cache)
        run = codec().changed(for_corpus(start, corpus), options.set)
        assert isinstance(run.task, LanguageModellingConfig)
        task = LanguageModelTask(run.task, run.training, corpus, options.data)
        display = Display.on_terminal(quiet=not processes.first).shows(task.unit, task.shown)
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
        display.say(f"{options.out}: finished; try `fastweights generate {options.out}`")
    else:
        number = signal.Signals(ending.signal or signal.SIGTERM)
        display.say(f"{options.out}: stopped by {number.name} after step {ending.progress.step}, all of it saved")
        sys.exit(128 + number)


def _splitter(name: str, vocabulary_size: int | None) -> "Splitter":
    from fastweights.data.text.tokenizers import SPLITTERS, BytePairs

    if vocabulary_size is None:
        return SPLITTERS[name]()
    if name != "bpe":
        raise ValueError(f"vocabulary_size: only byte pairs have one, not {name}; possible: --tokens bpe")
    return BytePairs(vocabulary_size)
