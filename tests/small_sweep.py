"""A sweep of small runs, as a program that tests can start and kill: `python small_sweep.py RESULTS [STEPS]`."""

import signal
import sys
from dataclasses import replace
from pathlib import Path

from fastweights.experiments.retrieval.execute import PUBLISHED, RetrievalRun, preset


def runs(steps: int = 1000, count: int = 10) -> list[RetrievalRun]:
    """Runs of one or two seconds each, of both settings."""
    return [
        replace(
            preset(setting, "dpfp1", rule, 8, seed, PUBLISHED),
            key_dim=8,
            evaluate_every=50,
            patience=1000,
            stop_loss=0.0,
            max_steps=steps,
        )
        for setting, rule in (("capacity", "sum"), ("overwriting", "delta"))
        for seed in range(1, count // 2 + 1)
    ]


if __name__ == "__main__":
    from fastweights.runs.sweep.local import sweep

    # A shell that started the tests in the background would have made this program deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sweep(runs(*map(int, sys.argv[2:])), Path(sys.argv[1]), jobs=2, title="small sweep")
