"""No speed for a wrong result."""

from dataclasses import replace
from itertools import cycle

import pytest
import torch
from benchmarks.competitors import COMPETITORS, Competitor, scan
from benchmarks.entries import Entry, error, expected_results
from benchmarks.problems import MEMORY, Case
from benchmarks.timing import race
from torch import Tensor

from benchmarks import operators

CASE = Case(batch=2, heads=2, steps=70, key_dim=8, value_dim=4)


def wrong_in_one_read(queries: Tensor, keys: Tensor, values: Tensor, strengths: Tensor) -> Tensor:
    reads = scan(queries, keys, values, strengths, backend="chunked")
    return reads + torch.nn.functional.one_hot(torch.tensor(69), 70)[:, None] * 1e-3


def wrong_in_a_gradient(queries: Tensor, keys: Tensor, values: Tensor, strengths: Tensor) -> Tensor:
    return scan(queries, keys, values, strengths.detach() + 0 * strengths, backend="chunked")


def not_a_number(queries: Tensor, keys: Tensor, values: Tensor, strengths: Tensor) -> Tensor:
    return scan(queries, keys, values, strengths, backend="chunked") * torch.nan


def reads_before_the_write(queries: Tensor, keys: Tensor, values: Tensor, strengths: Tensor) -> Tensor:
    later = torch.cat([queries[:, :, 1:], queries[:, :, :1]], dim=2)
    return scan(later, keys, values, strengths, backend="chunked").roll(1, dims=2)


@pytest.mark.parametrize(
    "function", [wrong_in_one_read, wrong_in_a_gradient, not_a_number, reads_before_the_write], ids=lambda f: f.__name__
)
def test_a_wrong_result_gets_no_time(function, monkeypatch) -> None:
    wrong = replace(COMPETITORS["chunked"], name="wrong", load=lambda: function)
    monkeypatch.setitem(COMPETITORS, "wrong", wrong)
    threads = torch.get_num_threads()
    result = operators.OperatorMeasurement(CASE, threads, 0.001, ("chunked", "wrong")).run()
    assert result["refused"] == ["wrong"]
    assert result["times"].keys() == {"chunked"}


@pytest.mark.parametrize("name", ["chunked", "sdpa", pytest.param("transformers", marks=pytest.mark.slow)])
def test_peers_compute_what_the_definition_says(name) -> None:
    competitor = COMPETITORS[name]
    if (reason := competitor.missing()) is not None:
        pytest.skip(reason)
    assert error(Entry.of(competitor, CASE).results(CASE), expected_results(competitor.problem, CASE)) < 2e-6


def test_a_missing_competitor_is_named_and_the_others_run(monkeypatch) -> None:
    def load() -> None:
        raise AssertionError("must not be loaded")

    absent = Competitor("absent", "", COMPETITORS["chunked"].problem, load, lambda: "nobody built it")
    monkeypatch.setitem(COMPETITORS, "absent", absent)
    result = operators.OperatorMeasurement(CASE, torch.get_num_threads(), 0.001, ("absent", "chunked")).run()
    assert result["missing"] == {"absent": "nobody built it"}
    assert result["times"].keys() == {"chunked"}


def test_sampled_sequences_include_the_first_and_the_last() -> None:
    case = Case(3, 8, 1024, 64, 64)
    numbers = torch.arange(24.0).reshape(3, 8, 1)
    chosen = MEMORY.sample(numbers, case).flatten().tolist()
    assert len(chosen) == len(set(chosen)) == 8
    assert {0.0, 23.0} <= set(chosen)


def test_a_race_keeps_the_best_of_several_turns() -> None:
    times = cycle([3.0, 1.0, 2.0])
    result = race({"a": lambda: {"x": next(times)}, "b": lambda: {"y": 2.0}}, seconds=0.01)
    assert (result["a"]["x"]["best"], result["a"]["x"]["median"], result["b"]["y"]["best"]) == (1.0, 2.0, 2.0)
    assert result["b"]["y"]["repetitions"] > 1
