"""The folder of a trained translator: its weights, its tokeniser, and where its pairs were."""

from pathlib import Path

from fastweights.data.translation_tokeniser import JointBytePairs
from fastweights.experiments.load import load_run, read_run
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.models.translator import Translator
from fastweights.runs.checkpoint import Checkpoint


def load_translator(path: Path, which: str = "best") -> tuple[Translator, TranslationConfig, Checkpoint]:
    """The translator of a run, its task, and the checkpoint that was used."""
    _task_of(path)  # a run of another task should not cost the time to load it
    model, run, checkpoint = load_run(path, which)
    assert isinstance(run.task, TranslationConfig)
    assert isinstance(model, Translator)
    return model, run.task, checkpoint


def tokeniser_of(path: Path) -> JointBytePairs:
    """The tokeniser of a run, compared with its model."""
    task, file = _task_of(path), path / "tokeniser.json"
    if not file.exists():
        raise ValueError(f"{path}: this is not the folder of a translator, there is no tokeniser.json")
    try:
        tokeniser = JointBytePairs.from_json(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: corrupted ({error})") from error
    size = task.model.vocabulary_size
    if len(tokeniser) != size:
        raise ValueError(f"{file}: {len(tokeniser)} symbols, but the model of the run has {size}")
    return tokeniser


def _task_of(path: Path) -> TranslationConfig:
    task = read_run(path).task
    if not isinstance(task, TranslationConfig):
        raise ValueError(f"{path}: the run of another task, not of a translator")
    return task
