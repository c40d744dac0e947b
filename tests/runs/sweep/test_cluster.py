"""Sweeps on a Dask cluster: the same records as on one machine, whoever dies; one clear line where it cannot be."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import small_sweep

from fastweights.runs.display import SweepDisplay
from fastweights.runs.record import record_path
from fastweights.runs.sweep import cluster as cluster_module
from fastweights.runs.sweep.cluster import ClusterAddress, DaskCluster, Work, refuse_other_versions
from fastweights.runs.sweep.cluster_task import versions
from fastweights.runs.sweep.local import ATTEMPTS
from fastweights.runs.sweep.plan import Job

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="needs pip install 'fastweights[cluster]'")
RECORD = {
    "format": 2,
    "config": {},
    "result": {"best_loss": 0.25, "last_loss": 0.5, "steps": 1},
    "environment": {},
    "curve": {},
}
JOB = Job("run-0123", "run", "{}", 1.0)


class Future:
    """What Dask gives back for a task, already ended."""

    def __init__(self, outcome: dict[str, Any], status: str = "finished") -> None:
        self.outcome, self.status = outcome, status

    def done(self) -> bool:
        return True

    def result(self) -> str:
        return json.dumps(self.outcome)

    def exception(self) -> Exception:
        return RuntimeError("something odd")


class Client:
    """A cluster in which every task ends in one of some ways, in turn."""

    def __init__(self, *futures: Future) -> None:
        self.futures, self.tell = list(futures), None

    def subscribe_topic(self, topic: str, handler: Callable[[tuple[float, Any]], None]) -> None:
        self.tell = handler

    def submit(self, function: Callable[..., str], *arguments: Any, key: str, pure: bool) -> Future:
        assert all(
            isinstance(x, str) or (isinstance(x, dict) and set(map(type, x.values())) == {str}) for x in arguments
        )
        return self.futures.pop(0)


def worked(results: Path, *futures: Future) -> Work:
    """The work on one job whose tasks end like this."""
    cluster = DaskCluster(ClusterAddress("tcp://127.0.0.1:1"), "odd_jobs:serve", "title")
    work = Work(Client(*futures), cluster, results, SweepDisplay(1, 0, 1.0))
    work.submit(JOB)
    while work.jobs:
        work.collect()
    return work


def test_a_record_comes_back_and_is_written(tmp_path: Path) -> None:
    work = worked(tmp_path, Future({"record": json.dumps(RECORD)}))
    assert work.failures == {}
    assert json.loads(record_path(tmp_path, JOB.name).read_text()) == RECORD


def test_what_is_no_record_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a record of format"):
        worked(tmp_path, Future({"record": "{}"}))
    assert not record_path(tmp_path, JOB.name).exists()


def test_a_run_whose_process_dies_is_given_again_but_not_for_ever(tmp_path: Path) -> None:
    assert worked(tmp_path, Future({"died": -9}), Future({"record": json.dumps(RECORD)})).failures == {}
    assert worked(tmp_path, *[Future({"died": -9})] * ATTEMPTS).failures == {
        "run": f"its process ended {ATTEMPTS} times (exit code -9)"
    }


def test_failures_are_told_by_run(tmp_path: Path) -> None:
    assert worked(tmp_path, Future({"failed": "one clear line"})).failures == {"run": "one clear line"}
    assert worked(tmp_path, Future({}, "error")).failures == {"run": "RuntimeError: something odd"}
    with pytest.raises(
        ConnectionError, match=r"the scheduler at tcp://127.0.0.1:1 is gone; every record so far is kept"
    ):
        worked(tmp_path, Future({}, "lost"))


def test_workers_tell_how_their_runs_go(tmp_path: Path) -> None:
    work = worked(tmp_path, Future({"failed": "later"}))
    tell = work.client.tell
    progress = json.dumps({"event": "progress", "step": 7, "steps": 9, "loss": 0.5, "steps_per_second": 2.0})
    tell((0.0, [JOB.name, json.dumps({"event": "started"})]))
    tell((0.0, [JOB.name, progress]))
    assert work.display.running[JOB.name].describe() == "run step 7/9 loss 0.5 (2 steps/s)"
    tell((0.0, ["another-run", progress]))


class Answers:
    """Workers that answer with their versions."""

    def __init__(self, *answers: object) -> None:
        self.answers = {f"tcp://10.0.0.{number}:1": answer for number, answer in enumerate(answers)}

    def run(self, function: Callable[[], object], on_error: str) -> dict[str, object]:
        return self.answers


def test_a_worker_with_other_versions_is_named() -> None:
    refuse_other_versions(Answers())
    refuse_other_versions(Answers(versions(), OSError("it has just died")))
    with pytest.raises(
        ValueError, match=r"the worker tcp://10.0.0.1:1 differs from this machine: torch is 1.0 there and"
    ):
        refuse_other_versions(Answers(versions(), versions() | {"torch": "1.0"}))
    with pytest.raises(ValueError, match="No module named 'fastweights'"):
        refuse_other_versions(Answers(ModuleNotFoundError("No module named 'fastweights'")))


def test_without_dask_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"cluster: needs Dask; pip install 'fastweights\[cluster\]'"):
        ClusterAddress("tcp://127.0.0.1:1").connect()


def test_tls_needs_all_its_files(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.touch()
    with pytest.raises(ValueError, match="TLS needs all of --cluster-ca, --cluster-cert and --cluster-key"):
        ClusterAddress("tls://127.0.0.1:1", ca=file)
    with pytest.raises(ValueError, match=r"expected an address tls://HOST:PORT, got 'tcp://127.0.0.1:1'"):
        ClusterAddress("tcp://127.0.0.1:1", file, file, file)
    with pytest.raises(ValueError, match=r"cluster-key: .*missing.pem is no file"):
        ClusterAddress("tls://127.0.0.1:1", file, file, tmp_path / "missing.pem")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@needs_dask
def test_what_is_no_dask_is_one_clear_line_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.5)

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                with listening.accept()[0] as connection:
                    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        address = ClusterAddress(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
        with pytest.raises(ConnectionError, match="cluster: no Dask scheduler answers at tcp://127"):
            address.connect()


@needs_dask
@pytest.mark.parametrize("address", ["127.0.0.1", "ftp://127.0.0.1:8786"])
def test_an_address_of_another_form_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    # A client that could not start complains once more when it is collected.
    monkeypatch.delattr("distributed.Client.__init__")
    with pytest.raises(
        ConnectionError, match=r"no Dask scheduler answers at .* \((missing port|unknown address scheme)"
    ):
        ClusterAddress(address).connect()


@pytest.mark.slow
@needs_dask
def test_an_address_where_nobody_listens_is_one_clear_line() -> None:
    program = "import sys; from fastweights.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, "reproduce", "figure3", "--cluster", f"tcp://127.0.0.1:{free_port()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: cluster: no Dask scheduler answers at tcp://127.0.0.1:")


def wait_for_port(port: int) -> None:
    """Until somebody listens there."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens at {port}")


@pytest.fixture
def cluster(tmp_path: Path) -> "Iterator[tuple[str, list[subprocess.Popen[bytes]]]]":
    """A scheduler and two workers on this machine."""
    address = f"tcp://127.0.0.1:{free_port()}"
    place = ["--host", "127.0.0.1", "--no-dashboard"]
    start = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    scheduler = [*start, "scheduler", *place, "--port", address.rpartition(":")[2]]
    worker = [*start, "worker", address, *place, "--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path)]
    processes = [subprocess.Popen(scheduler, **quiet)]  # type: ignore[call-overload]
    try:
        wait_for_port(int(address.rpartition(":")[2]))
        processes += [subprocess.Popen(worker, **quiet) for _ in range(2)]  # type: ignore[call-overload]
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def sweep_on(address: str | None, results: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, small_sweep.__file__, str(results), "400", "6", *([address] if address else [])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def records(results: Path) -> dict[str, Any]:
    """Every record, without what depends on the machine and the clock."""
    found = {}
    for path in sorted((results / "records").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        del record["environment"], record["result"]["seconds"], record["result"]["core_seconds"]
        found[path.name] = record
    return found


def wait_for_records(driver: "subprocess.Popen[str]", results: Path, count: int) -> None:
    until = time.monotonic() + 600
    while len(list(results.glob("records/*.json"))) < count and driver.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
@needs_dask
def test_a_worker_is_killed_and_the_driver_stopped(
    cluster: "tuple[str, list[subprocess.Popen[bytes]]]", tmp_path: Path
) -> None:
    """The sweep ends with the records of one machine, and nothing of a run stays behind."""
    address, (_, worker, _) = cluster
    driver = sweep_on(address, tmp_path / "cluster")
    wait_for_records(driver, tmp_path / "cluster", 1)
    worker.kill()
    wait_for_records(driver, tmp_path / "cluster", 2)
    driver.send_signal(signal.SIGTERM)
    output, _ = driver.communicate(timeout=120)
    assert driver.returncode == 128 + signal.SIGTERM, output
    assert 2 <= len(records(tmp_path / "cluster")) < 6
    driver = sweep_on(address, tmp_path / "cluster")
    output, _ = driver.communicate(timeout=900)
    assert driver.returncode == 0, output
    assert "6/6" in output
    local = sweep_on(None, tmp_path / "local")
    output, _ = local.communicate(timeout=900)
    assert local.returncode == 0, output
    assert len(records(tmp_path / "local")) == 6
    assert records(tmp_path / "cluster") == records(tmp_path / "local")
    assert not (tmp_path / "cluster" / "runs").exists()


@pytest.mark.slow
def test_two_processes_share_one_results_folder(tmp_path: Path) -> None:
    """As the tasks of an array of Slurm do."""
    both = [sweep_on(None, tmp_path / "shared") for _ in range(2)]
    for process in both:
        output, _ = process.communicate(timeout=900)
        assert process.returncode == 0, output
    alone = sweep_on(None, tmp_path / "alone")
    alone.communicate(timeout=900)
    assert len(records(tmp_path / "alone")) == 6
    assert records(tmp_path / "shared") == records(tmp_path / "alone")
