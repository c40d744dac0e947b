"""An executor of other machines: the workers of a Dask cluster, each run in a process of its own.

What travels is plain data, in JSON: a run's configuration goes, events and a record come back through the scheduler,
so that no file system has to be shared. The driver holds the sweep: records are written where it is, and when it ends
the workers stop what they are at. Dask repeats elsewhere the run of a worker that died.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fastweights.runs.display import Running, SweepDisplay
from fastweights.runs.record import receive_record
from fastweights.runs.signals import StopSignals, end_process
from fastweights.runs.sweep.cluster_task import differences, perform, versions
from fastweights.runs.sweep.local import ATTEMPTS
from fastweights.runs.sweep.plan import Job

PATIENCE = 8.0
"""Seconds in which a scheduler has to answer."""


@dataclass(frozen=True)
class ClusterAddress:
    """Where a Dask scheduler listens and, for tls:// addresses, the files that prove who is who."""

    address: str
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        files = {"cluster-ca": self.ca, "cluster-cert": self.certificate, "cluster-key": self.key}
        given = [name for name, path in files.items() if path is not None]
        if (self.address.startswith("tls://") or given) and len(given) < len(files):
            raise ValueError("cluster: TLS needs all of --cluster-ca, --cluster-cert and --cluster-key")
        if given and not self.address.startswith("tls://"):
            raise ValueError(f"cluster: with certificates, expected an address tls://HOST:PORT, got {self.address!r}")
        for name, path in files.items():
            if path is not None and not path.is_file():
                raise ValueError(f"{name}: {path} is no file")

    def connect(self) -> Any:
        """A client of the scheduler; one clear line if there is none."""
        try:
            from distributed import Client, Security
            from distributed.comm.core import connect
        except ImportError as error:
            raise ValueError("cluster: needs Dask; pip install 'fastweights[cluster]'") from error
        files = {"tls_ca_file": self.ca, "tls_client_cert": self.certificate, "tls_client_key": self.key}
        named = {name: str(path) for name, path in files.items() if path is not None}

        async def greet() -> None:
            comm = await connect(self.address, timeout=PATIENCE, **security.get_connection_args("client"))
            comm.abort()

        try:
            security = Security(require_encryption=True, **named) if named else Security()
            # First without a client, which waits without end for an answer from what is no Dask.
            asyncio.run(asyncio.wait_for(greet(), 1.25 * PATIENCE))
            return Client(self.address, security=security, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, MemoryError) as error:  # Dask takes what a stranger sends for a length
            reason = " ".join(str(error).split()) or "what listens there does not speak as Dask does"
            raise ConnectionError(f"cluster: no Dask scheduler answers at {self.address} ({reason})") from error


@dataclass(frozen=True)
class DaskCluster:
    """Runs jobs on the workers of a Dask cluster, with the function that is named as `module:function`."""

    address: ClusterAddress
    function: str
    title: str
    """What a list of processes shows on the machines of the workers."""

    def __call__(self, jobs: Sequence[Job], results: Path, display: SweepDisplay) -> Mapping[str, str]:
        """Carry out the jobs; when this process ends, however it does, the workers stop."""
        with StopSignals() as signals, self.address.connect() as client:
            refuse_other_versions(client)
            if not client.scheduler_info()["workers"]:
                display.say(f"cluster: {self.address.address} has no workers yet; runs start when one comes")
            work = Work(client, self, results, display)
            for job in jobs:
                work.submit(job)
            while work.jobs and signals.received is None:
                display.refresh()
                work.collect()
                time.sleep(0.1)
        if signals.received is not None:
            end_process(signals.received)
        return work.failures


class Work:
    """The runs that a cluster was given, by their futures."""

    def __init__(self, client: Any, cluster: DaskCluster, results: Path, display: SweepDisplay) -> None:
        self.client, self.cluster, self.results, self.display = client, cluster, results, display
        self.jobs: dict[Any, Job] = {}
        self.failures: dict[str, str] = {}
        self.deaths: dict[Job, int] = {}
        self.costs: dict[str, float] = {}
        self.topic = f"fastweights-{uuid.uuid4().hex}"
        client.subscribe_topic(self.topic, lambda event: self.show(*event[1]))

    def submit(self, job: Job) -> None:
        """Give a run to whichever worker is free next; the longest runs come first."""
        self.costs[job.name] = job.cost
        key = f"{job.name}-{uuid.uuid4().hex[:8]}"
        arguments = (self.cluster.function, self.cluster.title, job.request, self.topic, job.name, key, versions())
        self.jobs[self.client.submit(perform, *arguments, key=key, pure=False)] = job

    def show(self, name: str, event: str) -> None:
        """Pass on what a worker tells about its run; called in a thread of the client."""
        told: dict[str, Any] = json.loads(event)
        if told.pop("event") == "started":
            self.display.start(name, Running(name.rpartition("-")[0], self.costs.get(name, 0.0)))
        elif name in self.display.running:
            self.display.update(name, **told)

    def collect(self) -> None:
        """Take what has ended."""
        for future in [future for future in self.jobs if future.done()]:
            job = self.jobs.pop(future)
            if future.status in ("cancelled", "lost"):
                raise ConnectionError(
                    f"cluster: the scheduler at {self.cluster.address.address} is gone; every record so far is kept, "
                    "and the same command goes on"
                )
            if future.status == "error":
                self.fail(job, _killed(future.exception()))
            else:
                self.finish(job, json.loads(future.result()))

    def finish(self, job: Job, outcome: dict[str, Any]) -> None:
        """Write the record of a run, or give it again if its process died."""
        if "record" in outcome:
            # Another sweep may have finished it meanwhile.
            known = job.is_done(self.results)
            result = None if known else receive_record(self.results, job.name, outcome["record"]).result
            self.display.finish(job.name, result, job.cost)
        elif "failed" in outcome:
            self.fail(job, outcome["failed"])
        else:
            deaths = self.deaths[job] = self.deaths.get(job, 0) + 1
            self.display.drop(job.name)
            if deaths < ATTEMPTS:
                self.submit(job)
            else:
                self.fail(job, f"its process ended {deaths} times (exit code {outcome['died']})")

    def fail(self, job: Job, message: str) -> None:
        self.failures[job.slug] = message
        self.display.drop(job.name)


def refuse_other_versions(client: Any) -> None:
    """Raise a ValueError if a worker that is there already has another fastweights, torch or Python than this one."""
    for place, there in client.run(versions, on_error="return").items():
        if isinstance(there, OSError):  # it has just died
            continue
        odd = str(there) if isinstance(there, Exception) else differences(versions(), there)
        if odd:
            raise ValueError(f"cluster: the worker {place} differs from this machine: {odd}")


def _killed(error: BaseException | None) -> str:
    if type(error).__name__ == "KilledWorker":
        return f"the workers that were at it died ({cast('Any', error).allowed_failures + 1} of them)"
    return f"{type(error).__name__}: {error}"
