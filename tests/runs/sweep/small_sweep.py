"""A sweep of small runs that tests can start and kill: `python small_sweep.py RESULTS STEPS COUNT [CLUSTER]`."""

import signal
import sys
from dataclasses import replace
from pathlib import Path

from fastweights.experiments.carry_out import sweep_runs
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.presets import preset
from fastweights.runs.sweep.cluster import ClusterAddress
from fastweights.training.run import Run
from fastweights.training.stopping import Stopping


def runs(steps: int = 1000, count: int = 10) -> list[Run]:
    """Runs of one or two seconds each, of both settings."""
    made = []
    for setting, rule in (("capacity", "sum"), ("overwriting", "delta")):
        for seed in range(1, count // 2 + 1):
            run = preset(setting, "dpfp1", rule, 8, seed, AS_PUBLISHED)
            task = replace(run.task, key_dim=8)
            training = replace(run.training, steps=steps, evaluate_every=50)
            made.append(replace(run, task=task, training=training, stopping=Stopping(target=0.0, patience=1000)))
    return made


if __name__ == "__main__":
    # A shell that started the tests in the background would have made this program deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    results, steps, count, *addresses = sys.argv[1:]
    cluster = ClusterAddress(addresses[0]) if addresses else None
    sweep_runs(runs(int(steps), int(count)), Path(results), jobs=2, title="small sweep", cluster=cluster)
