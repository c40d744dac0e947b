"""The folder of a trained language model: its weights, its vocabulary, and where its text was."""

from pathlib import Path

from fastweights.data.text.tokenizers import Vocabulary
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.load import load_run, read_run
from fastweights.models.language_model import LanguageModel
from fastweights.runs.checkpoint import Checkpoint


def load_language_model(path: Path, which: str = "best") -> tuple[LanguageModel, LanguageModellingConfig, Checkpoint]:
    """The language model of a run, its task, and the checkpoint that was used."""
    model, run, checkpoint = load_run(path, which)
    if not isinstance(run.task, LanguageModellingConfig) or not isinstance(model, LanguageModel):
        raise ValueError(f"{path}: the run of another task, not of a language model")
    return model, run.task, checkpoint


def vocabulary_of(path: Path) -> Vocabulary:
    """The vocabulary of a run, compared with its model."""
    task = read_run(path).task
    if not isinstance(task, LanguageModellingConfig):
        raise ValueError(f"{path}: the run of another task, not of a language model")
    if not (path / "vocabulary.json").exists():
        raise ValueError(f"{path}: this is not the folder of a run, there is no vocabulary.json")
    try:
        vocabulary = Vocabulary.from_json((path / "vocabulary.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path / 'vocabulary.json'}: corrupted ({error})") from error
    size = task.model.vocabulary_size
    if len(vocabulary) != size:
        raise ValueError(f"{path / 'vocabulary.json'}: {len(vocabulary)} symbols, but the model of the run has {size}")
    return vocabulary
