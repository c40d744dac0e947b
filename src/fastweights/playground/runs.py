"""The trained models that the page was given, by name, opened before the page is.

A visitor of the page names one of these and nothing else: no path comes from outside.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from fastweights.data.text.tokenizers import Vocabulary
from fastweights.data.translation_tokeniser import JointBytePairs
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.experiments.load import read_run
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.experiments.translation.saved import load_translator, tokeniser_of
from fastweights.models.language_model import LanguageModel
from fastweights.models.translator import Translator

Opened = TypeVar("Opened")


class Runs:
    """Language models and translators in evaluation mode; a ValueError names the folder that holds neither."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.language_models = dict[str, tuple[LanguageModel, Vocabulary]]()
        self.translators = dict[str, tuple[Translator, JointBytePairs]]()
        for folder in folders:
            if not folder.is_dir():
                raise ValueError(f"{folder}: there is no such folder")
            task, name = read_run(folder).task, self._name(folder)
            if isinstance(task, LanguageModellingConfig):
                self.language_models[name] = load_language_model(folder)[0].eval(), vocabulary_of(folder)
            elif isinstance(task, TranslationConfig):
                self.translators[name] = load_translator(folder)[0].eval(), tokeniser_of(folder)
            else:
                raise ValueError(f"{folder}: the run of neither a language model nor a translator")

    def language_model(self, name: str) -> tuple[LanguageModel, Vocabulary]:
        """The language model of this name, and what its tokens stand for."""
        return _named(self.language_models, name)

    def translator(self, name: str) -> tuple[Translator, JointBytePairs]:
        """The translator of this name, and what its tokens stand for."""
        return _named(self.translators, name)

    def _name(self, folder: Path) -> str:
        """That of the folder; of several with the same name, with a number."""
        name, number = folder.resolve().name, 2
        while name in self.language_models or name in self.translators:
            name, number = f"{folder.resolve().name} ({number})", number + 1
        return name


def _named(table: Mapping[str, Opened], name: str) -> Opened:
    if name not in table:
        raise ValueError(f"run: this page was not given {name!r}; possible: {', '.join(table) or 'none'}")
    return table[name]
