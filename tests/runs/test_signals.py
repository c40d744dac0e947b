"""A request to stop is noted once; the second one acts as it always does."""

import math
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from fastweights.runs.signals import STOPPING, StopSignals, end_process


@pytest.mark.parametrize("number", [s for s in STOPPING if s is not signal.SIGHUP], ids=lambda s: s.name)
def test_a_signal_is_only_noted(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopSignals() as signals:
        assert signals.received is None
        signal.raise_signal(number)
        assert signals.received == number
        assert signal.getsignal(number) == before
    assert signal.getsignal(number) == before


def test_a_second_signal_acts_as_it_always_does() -> None:
    with StopSignals() as signals:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signals.received == signal.SIGINT


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert signals.received is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back_after_an_error() -> None:
    before = [signal.getsignal(number) for number in STOPPING]
    with pytest.raises(OverflowError), StopSignals():
        math.exp(1000)
    assert [signal.getsignal(number) for number in STOPPING] == before


def test_in_another_thread_nothing_is_touched() -> None:
    found: list[Any] = []

    def work() -> None:
        with StopSignals() as signals:
            found.append((signal.getsignal(signal.SIGTERM), signals.received))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(before, None)]


def test_a_process_ends_as_one_that_was_stopped() -> None:
    with pytest.raises(KeyboardInterrupt):
        end_process(signal.SIGINT)
    for number in (signal.SIGTERM, None):
        with pytest.raises(SystemExit) as error:
            end_process(number)
        assert error.value.code == 128 + signal.SIGTERM


def test_a_second_signal_ends_a_process_that_does_not_look() -> None:
    script = (
        "import sys, time\n"
        "from fastweights.runs.signals import StopSignals\n"
        "with StopSignals():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(1)\n"
        "    print('still here', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.stdout.readline() == "still here\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
