"""bAbI: stories from files, sentences as numbers, and one clear line about what is damaged."""

from pathlib import Path

import pytest
import torch

from babi_files import STORIES, write_task
from fastweights.data.babi import Sentence, StoryVocabulary, open_task, read_stories
from fastweights.data.marked import NOTHING


def test_a_file_is_read_story_by_story(tmp_path: Path) -> None:
    path = tmp_path / "qa1_x_train.txt"
    path.write_text(STORIES)
    first, second = read_stories(path)
    assert first == (
        Sentence(("mary", "moved", "to", "the", "bathroom")),
        Sentence(("john", "went", "to", "the", "hallway")),
        Sentence(("where", "is", "mary"), "bathroom"),
    )
    assert [sentence.answer for sentence in second] == [None, "office,hallway"]


def test_the_published_folders_and_a_folder_of_files_are_found(tmp_path: Path) -> None:
    write_task(tmp_path / "en", 1, 3)
    write_task(tmp_path / "en-10k", 1, 30)
    write_task(tmp_path / "own", 1, 5)
    assert len(open_task(tmp_path, 1, 1_000).train) == 6
    assert len(open_task(tmp_path, 1, 10_000).train) == 60
    assert len(open_task(tmp_path / "own", 1, 1_000).train) == 10
    assert open_task(tmp_path, 1, 1_000).digest != open_task(tmp_path, 1, 10_000).digest


def test_fewer_examples_are_the_first_stories(tmp_path: Path) -> None:
    write_task(tmp_path, 1, 30)
    assert open_task(tmp_path, 1, 12).train == open_task(tmp_path, 1, 1_000).train[:12]


def test_sentences_become_numbers_one_a_step(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(STORIES)
    stories = read_stories(path)
    vocabulary = StoryVocabulary.of(stories)
    assert vocabulary.answers == {"bathroom": 0, "office,hallway": 1}
    inputs, targets, groups = vocabulary.encode(stories)
    assert inputs.shape == (2, 3, vocabulary.longest)
    words = {number: word for word, number in vocabulary.words.items()}
    assert [words[number] for number in inputs[0, 2].tolist() if number] == ["where", "is", "mary"]
    assert inputs[1, 2].tolist() == [0] * vocabulary.longest
    assert targets.tolist() == [[NOTHING, NOTHING, 0], [NOTHING, 1, NOTHING]]
    assert torch.equal(groups, torch.zeros_like(targets))


def test_words_and_answers_that_training_has_not_seen(tmp_path: Path) -> None:
    vocabulary = StoryVocabulary.of(((Sentence(("where", "is", "mary"), "garden"),),))
    inputs, targets, _ = vocabulary.encode(((Sentence(("where", "is", "bill", "now"), "cellar"),),))
    assert inputs.tolist() == [[[vocabulary.words["where"], vocabulary.words["is"], 0]]]
    assert targets.tolist() == [[1]], "a class that no model has"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1 Mary moved.\nwent to the hall.\n", "line 2 is damaged; expected `ID text`, got 'went to the hall.'"),
        ("1 Mary moved.\n\n", "line 2 is damaged"),
        ("1 Mary moved.\n3 Where?\tgarden\t1\n", "line 2 has the ID 3; expected 2, or 1 for a new story"),
        ("2 Mary moved.\n", "line 1 has the ID 2; expected 1, or 1"),
        ("1 Where is Mary?\t\t1\n", "line 1 is a question without an answer"),
        ("1 ...\n", "line 1 has no words"),
        ("1 Mary moved.\n", "there is no question in it"),
        ("", "there is no question in it"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "qa1_x_train.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint) as caught:
        read_stories(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "qa1_x_train.txt"
    path.write_bytes(b"1 Mary \xff\n")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        read_stories(path)


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such folder"):
        open_task(tmp_path / "nowhere", 1, 1_000)
    with pytest.raises(ValueError, match="there are no bAbI files in it"):
        open_task(tmp_path, 1, 1_000)
    write_task(tmp_path, 5, 2)
    with pytest.raises(ValueError, match=r"no file qa1_…_train.txt; tasks there: 5"):
        open_task(tmp_path, 1, 1_000)
    (tmp_path / "qa5_other_train.txt").write_text("")
    with pytest.raises(ValueError, match=r"2 files qa5_…_train.txt"):
        open_task(tmp_path, 5, 1_000)
