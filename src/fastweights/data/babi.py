"""bAbI: short stories with questions (Weston et al., 2015), read from a folder of its text files.

FOLDER/qa1_single-supporting-fact_train.txt  …_test.txt        one folder of tasks
FOLDER/en/qa…  and  FOLDER/en-10k/qa…                          as published: 1,000 and 10,000 training questions

A line is `ID text` or `ID question<tab>answer<tab>supporting facts`; an ID of 1 begins a story.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastweights.data.marked import NOTHING, MarkedSteps
from fastweights.files import sha256_of

FOLDERS = {1_000: "en", 10_000: "en-10k"}
"""The published folders by the number of training questions of each task."""
NO_WORD = 0


class Sentence(NamedTuple):
    """The words of a sentence or a question, and the answer, which only a question has."""

    words: tuple[str, ...]
    answer: str | None = None


Story = tuple[Sentence, ...]


@dataclass(frozen=True)
class QuestionTask:
    """The stories of one task: to learn from and to be tested on, and the files' digest."""

    train: tuple[Story, ...]
    test: tuple[Story, ...]
    digest: str


def open_task(folder: Path, task: int, examples: int) -> QuestionTask:
    """The stories of task 1 … 20; a ValueError says what is missing or which line of which file is damaged."""
    if not folder.is_dir():
        raise ValueError(
            f"{folder}: no such folder; expected one with en/qa1_…_train.txt, or with the files themselves"
        )
    inner = folder / FOLDERS.get(examples, "")
    place = inner if inner.is_dir() else folder
    train, test = _file(place, task, "train"), _file(place, task, "test")
    digest = f"{sha256_of(train)[:12]}-{sha256_of(test)[:12]}"
    return QuestionTask(_first_questions(read_stories(train), examples), read_stories(test), digest)


def _file(folder: Path, task: int, split: str) -> Path:
    found = sorted(folder.glob(f"qa{task}_*_{split}.txt"))
    if len(found) == 1:
        return found[0]
    there = sorted({int(match[1]) for path in folder.glob("qa*_*.txt") if (match := re.match(r"qa(\d+)_", path.name))})
    possible = f"; tasks there: {', '.join(map(str, there))}" if there else "; there are no bAbI files in it"
    problem = f"no file qa{task}_…_{split}.txt" if not found else f"{len(found)} files qa{task}_…_{split}.txt"
    raise ValueError(f"{folder}: {problem}{possible}")


def read_stories(path: Path) -> tuple[Story, ...]:
    """Every story of a file."""
    stories: list[list[Sentence]] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (byte {error.object[error.start]:#04x})") from error
    expected = 1
    for number, line in enumerate(lines, start=1):
        identity, _, text = line.partition(" ")
        if not (identity.isascii() and identity.isdigit()) or not text.strip():
            raise ValueError(f"{path}: line {number} is damaged; expected `ID text`, got {line[:60]!r}")
        if int(identity) not in (1, expected):
            raise ValueError(f"{path}: line {number} has the ID {identity}; expected {expected}, or 1 for a new story")
        if int(identity) == 1:
            stories.append([])
        expected = int(identity) + 1
        stories[-1].append(_sentence(text, f"{path}: line {number}"))
    if not any(sentence.answer for story in stories for sentence in story):
        raise ValueError(f"{path}: there is no question in it; expected `ID question<tab>answer<tab>facts`")
    return tuple(map(tuple, stories))


def _sentence(text: str, where: str) -> Sentence:
    parts = text.split("\t")
    words = tuple(re.findall(r"[a-z]+", parts[0].lower()))
    if not words:
        raise ValueError(f"{where} has no words, got {text[:60]!r}")
    if len(parts) == 1:
        return Sentence(words)
    answer = parts[1].strip().lower()
    if not answer:
        raise ValueError(f"{where} is a question without an answer, got {text[:60]!r}")
    return Sentence(words, answer)


def _first_questions(stories: tuple[Story, ...], count: int) -> tuple[Story, ...]:
    """The first stories with so many questions together, or all that there are."""
    kept, questions = [], 0
    for story in stories:
        if questions >= count:
            break
        kept.append(story)
        questions += sum(sentence.answer is not None for sentence in story)
    return tuple(kept)


@dataclass(frozen=True)
class StoryVocabulary:
    """Words and answers as numbers; a word that training has not seen is no word."""

    words: dict[str, int]
    answers: dict[str, int]
    longest: int
    """Words of the longest sentence."""

    @classmethod
    def of(cls, stories: tuple[Story, ...]) -> "StoryVocabulary":
        """Everything in these stories, in alphabetical order."""
        sentences = [sentence for story in stories for sentence in story]
        words = sorted({word for sentence in sentences for word in sentence.words})
        answers = sorted({sentence.answer for sentence in sentences if sentence.answer is not None})
        return cls(
            {word: number for number, word in enumerate(words, start=NO_WORD + 1)},
            {answer: number for number, answer in enumerate(answers)},
            max(len(sentence.words) for sentence in sentences),
        )

    def encode(self, stories: tuple[Story, ...]) -> MarkedSteps:
        """One sentence a step, padded at the end with steps of no words.

        An answer that is not in the vocabulary counts as a class of its own that is never right.
        """
        steps = max(map(len, stories))
        inputs: NDArray[np.int64] = np.full((len(stories), steps, self.longest), NO_WORD, dtype=np.int64)
        targets = np.full((len(stories), steps), NOTHING, dtype=np.int64)
        for row, story in enumerate(stories):
            for step, sentence in enumerate(story):
                numbers = [self.words.get(word, NO_WORD) for word in sentence.words[: self.longest]]
                inputs[row, step, : len(numbers)] = numbers
                if sentence.answer is not None:
                    targets[row, step] = self.answers.get(sentence.answer, len(self.answers))
        return MarkedSteps.of(inputs, targets, np.zeros_like(targets))
