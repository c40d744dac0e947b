"""The trained models that the page was given: their folders by name, opened when they are first asked for.

A visitor of the page names one of these and nothing else: no path comes from outside.
"""

from collections.abc import Sequence
from pathlib import Path

from fastweights.data.text.tokenizers import Vocabulary
from fastweights.data.translation_tokeniser import JointBytePairs
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.experiments.load import read_run
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.experiments.translation.saved import load_translator, tokeniser_of
from fastweights.models.language_model import LanguageModel
from fastweights.models.translator import Translator


class Runs:
    """Language models and translators; a ValueError names the folder that holds neither."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.language_models, self.translators = dict[str, Path](), dict[str, Path]()
        self._models = dict[Path, LanguageModel | Translator]()
        for folder in folders:
            if not folder.is_dir():
                raise ValueError(f"{folder}: there is no such folder")
            task = read_run(folder).task
            if isinstance(task, LanguageModellingConfig):
                self._add(self.language_models, folder)
            elif isinstance(task, TranslationConfig):
                self._add(self.translators, folder)
            else:
                raise ValueError(f"{folder}: the run of neither a language model nor a translator")

    def language_model(self, name: str) -> tuple[LanguageModel, Vocabulary]:
        """The language model of this name, in evaluation mode."""
        folder = _named(self.language_models, name)
        if folder not in self._models:
            self._models[folder] = load_language_model(folder)[0].eval()
        model = self._models[folder]
        assert isinstance(model, LanguageModel)
        return model, vocabulary_of(folder)

    def translator(self, name: str) -> tuple[Translator, JointBytePairs]:
        """The translator of this name, in evaluation mode."""
        folder = _named(self.translators, name)
        if folder not in self._models:
            self._models[folder] = load_translator(folder)[0].eval()
        model = self._models[folder]
        assert isinstance(model, Translator)
        return model, tokeniser_of(folder)

    def _add(self, table: dict[str, Path], folder: Path) -> None:
        name = folder.resolve().name
        number = 2
        while name in self.language_models or name in self.translators:
            name, number = f"{folder.resolve().name} ({number})", number + 1
        table[name] = folder


def _named(table: dict[str, Path], name: str) -> Path:
    if name not in table:
        raise ValueError(f"run: this page was not given {name!r}; possible: {', '.join(table) or 'none'}")
    return table[name]
