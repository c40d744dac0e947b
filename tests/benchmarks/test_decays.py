"""The benchmark of decays: every kind agrees with the step loop before it is timed."""

import torch
from benchmarks.decays import KINDS, DecayMeasurement
from benchmarks.problems import Case


def test_every_kind_agrees_and_is_timed() -> None:
    measured = DecayMeasurement(Case(1, 2, 20, 8, 8), torch.get_num_threads(), 0.001).run()
    assert not measured["refused"], measured["errors"]
    assert set(KINDS) <= measured["times"].keys()
    assert all(x["best"] > 0 for kind in measured["times"].values() for x in kind.values())
