"""Whether other normalisations compete on retrieval follows from records."""

from fastweights.experiments.retrieval.claims import REVIEW, ours
from fastweights.experiments.retrieval.writes import runs
from fastweights.runs.record import Record
from fastweights.training.run import Run
from retrieval_records import record, task_of


def records(losses: dict[str, float]) -> dict[Run, Record]:
    """Runs at two sizes with a loss by the name of their rule."""
    return {
        run: record(run, losses[rule])
        for run in runs()
        if (rule := run.preset.removeprefix("overwriting-dpfp1-")) in losses and task_of(run).num_keys in (20, 100)
    }


def test_the_verdict_says_whether_others_are_as_good() -> None:
    (claim,) = REVIEW
    assert claim.judge(ours({})).verdict == "not run yet"
    others = ("delta-l2", "delta-centred", "nlms")
    equal = ours(records(dict.fromkeys(("delta", *others), 0.02)))
    assert claim.judge(equal).verdict == "holds"
    one_worse = ours(records({"delta": 0.02, "delta-l2": 0.02, "delta-centred": 0.2, "nlms": 0.02}))
    assert claim.judge(one_worse).verdict == "holds in part"
    assert "S = 20: sum 0.020, L2 0.020, centred L2 0.200, NLMS 0.020" in claim.judge(one_worse).evidence
    worse = ours(records({"delta": 0.02} | dict.fromkeys(others, 0.2)))
    assert claim.judge(worse).verdict == "does not hold"
