"""Looking into a model: what is found equals what recording and evaluating find, and pages are whole and safe."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from fastweights.evaluation.perplexity import CarriedState, evaluate
from fastweights.experiments.look.looking import Looked, look
from fastweights.experiments.look.page import (
    number,
    overwrites_table,
    page_of,
    positions_table,
    summary_table,
    window_data,
)
from fastweights.experiments.look.subject import Subject, open_subject
from fastweights.memory import record
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.update_rules import DeltaProductRule, FastWeightMemoryRule, UpdateRule

pytestmark = pytest.mark.usefixtures("one_thread")
WORDS = ["<eos>", "cat", "</script><b>", "mat", "the", "a", " ", "dog"]


def subject(rule: UpdateRule | None = None, count: int = 61) -> Subject:
    torch.manual_seed(0)
    attention = FastWeightAttentionConfig() if rule is None else FastWeightAttentionConfig(update_rule=rule)
    model = LanguageModel(
        LanguageModelConfig(
            vocabulary_size=8, model_dim=8, num_heads=2, num_layers=2, feed_forward_dim=8, attention=attention
        )
    ).eval()
    tokens = np.random.default_rng(0).integers(8, size=count).astype(np.uint32)
    return Subject("a-model", model, tokens, lambda token: WORDS[token], "some words", "word", 16)


@pytest.fixture(scope="module")
def looked() -> Looked:
    return look(subject(), width=10)


def test_losses_are_those_of_the_evaluation(looked: Looked) -> None:
    given = subject()
    for losses, reach in ((looked.carried, None), (looked.reset, 16)):
        score = evaluate(given.model, given.tokens, CarriedState(16, reach))
        assert score is not None
        assert losses.mean() == pytest.approx(score.loss, rel=1e-5)
    assert np.array_equal(looked.carried[:16], looked.reset[:16])
    assert not np.allclose(looked.carried[16:], looked.reset[16:], atol=1e-7)


def test_the_window_is_a_part_of_the_whole(looked: Looked) -> None:
    first = looked.window.first
    assert first == (60 - 10) // 2
    assert looked.window.symbols == tuple(subject().symbols(first, first + 10))
    for name, trace in looked.traces.items():
        inside = trace["landing"][:, :, first : first + 10]
        assert_close(looked.window.traces[name]["landing"], inside, rtol=1e-3, atol=1e-5)


def test_a_memory_that_is_reset_forgets_what_was_before(looked: Looked) -> None:
    reset = look(subject(), reach=20, first=40, width=5)
    given = subject()
    with record(given.model) as seen, torch.no_grad():
        given.model(torch.from_numpy(given.tokens[40:45].astype(np.int64))[None])
    for name, trace in reset.window.traces.items():
        assert_close(trace["retrieved"], seen[name]["retrieved"])
        assert reset.traces[name].positions.max() == 19


@pytest.mark.parametrize(
    ("reach", "given", "first", "width"), [(20, None, 20, 10), (4, None, 24, 4), (20, 35, 35, 5), (60, None, 0, 10)]
)
def test_no_reset_lies_inside_the_window(reach: int, given: int | None, first: int, width: int) -> None:
    window = look(subject(), reach=reach, first=given, width=10).window
    assert (window.first, len(window.symbols)) == (first, width)


def test_the_page_is_whole_and_escapes_the_text(looked: Looked) -> None:
    page = page_of(looked).html()
    assert page.count("data:image/svg+xml") == 3
    assert "</script><b>" not in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert not re.search(r"(src|href)=[\"']?https?:", page)


def test_tables(looked: Looked) -> None:
    assert [row[0] for row in summary_table(looked).rows] == ["layer 0", "layer 1"]
    rows = overwrites_table(looked.window).rows
    assert rows
    for later, earlier, share, *_ in rows:
        places = [int(re.findall(r"\((\d+)\)", text)[0]) for text in (later, earlier)]
        assert 25 <= places[1] < places[0] < 35
        assert float(share) >= 0
    data = window_data(looked.window)
    assert len(data["tokens"]) == 10
    assert len(data["layers"][0]["views"]["erased"]) == 2


@pytest.mark.parametrize("rule", [FastWeightMemoryRule(), DeltaProductRule(2)], ids=str)
def test_other_rules_can_be_looked_into(rule: UpdateRule) -> None:
    found = look(subject(rule, count=20), width=6)
    data = window_data(found.window)
    assert data["per_token"] == rule.writes_per_step
    assert (data["layers"][0]["views"] == {}) == isinstance(rule, FastWeightMemoryRule)
    assert [row[0] for row in summary_table(found).rows] == ["layer 0", "layer 1"]


def test_a_window_outside_the_text_is_refused() -> None:
    with pytest.raises(ValueError, match="window: 10 tokens from 55 on are not inside a text of 61 tokens"):
        look(subject(), first=55, width=10)


def test_folders_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such folder"):
        open_subject(tmp_path / "absent", None, "valid", 100, "best", None)
    with pytest.raises(ValueError, match="neither the folder of a run nor one that `save_pretrained` wrote"):
        open_subject(tmp_path, None, "valid", 100, "best", None)
    with pytest.raises(ValueError, match="limit: expected at least 2 tokens, got 1"):
        open_subject(tmp_path, None, "valid", 1, "best", None)
    with pytest.raises(ValueError, match="text: there is no file"):
        open_subject(tmp_path, tmp_path / "absent.txt", "valid", 100, "best", None)


def test_perplexities_are_read_as_numbers(looked: Looked) -> None:
    assert [number(x) for x in (1.23456, 98.76543, 999.4, 11721.6)] == ["1.235", "98.77", "999.4", "11,722"]
    same = replace(looked, reset=looked.carried + 1e-9)
    assert {row[-1] for row in positions_table(same).rows} == {"+0.0%"}
