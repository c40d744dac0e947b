"""The benchmark of the synthetic experiments measures what it says."""

import pytest
import torch
from benchmarks.retrieval_speed import CASES, Case, gemm_speed, main, row

from fastweights.experiments.retrieval import single_thread


def test_a_line_has_the_time_of_a_step_and_of_each_evaluation() -> None:
    with single_thread():
        line = row(Case("capacity", "softmax", "sum", 5, 3, 7.5), threads=1, seconds=0.0)
    assert line[:6] == ["capacity", "softmax", "sum", "5", "32", "1"]
    assert line[8:10] == ["3", "7.5"]
    assert all(float(line[i]) > 0 for i in (6, 7, 10, 11))


def test_the_table_names_the_speed_of_a_matrix_product(capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    try:
        main(threads=(1,), seconds=0.0, only="nothing")
    finally:
        torch.set_num_threads(threads)
    assert "GEMM with 1 thread(s)" in capsys.readouterr().out
    assert gemm_speed(8) > 0


def test_the_goals_of_the_project_are_among_the_cases() -> None:
    goals = {(case.model, case.rule, case.num_keys): case.goal for case in CASES if case.published is not None}
    assert goals == {
        ("dpfp1", "delta", 20): 5,
        ("dpfp1", "delta", 100): 28,
        ("dpfp1", "delta", 200): 90,
        ("dpfp3", "sum", 300): 20,
        ("dpfp3", "sum", 600): 60,
    }
