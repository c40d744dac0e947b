"""A tiny text that counts as WikiText-2, and cpu presets that are as tiny."""

from dataclasses import replace
from pathlib import Path

import pytest

from fastweights.data.text.corpus import PUBLIC, Corpus, PublicCorpus, open_corpus
from fastweights.data.text.tokenizers import Words
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.presets import PRESETS
from tiny_language_model import write_book


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    book = write_book(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, run in list(PRESETS.items()):
        if name.startswith("cpu-"):
            assert isinstance(run.task, LanguageModellingConfig)
            model = replace(run.task.model, model_dim=8, num_heads=2, num_layers=1, feed_forward_dim=8)
            task = replace(run.task, model=model, segment_length=8, test_stride=3)
            training = replace(run.training, steps=4, batch_size=2, warmup_steps=0, evaluate_every=1)
            monkeypatch.setitem(PRESETS, name, replace(run, task=task, training=training))
    size = len(open_corpus(book, Words()).vocabulary)
    monkeypatch.setitem(PUBLIC, "wikitext-2", PublicCorpus("", "", (0, 0, 0), size))
    return book


@pytest.fixture
def corpus(text: Path) -> Corpus:
    return open_corpus(text, Words())
