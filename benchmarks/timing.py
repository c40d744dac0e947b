"""Best of several repetitions, taken in turns: what disturbs the machine for a while disturbs everybody."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

Times = dict[str, float]
"""Seconds by what was timed, from one call."""

TURN = 0.03
"""Seconds of a turn, in which a fast competitor is called again and again with its data near."""
FEWEST_TURNS = 3
LONGEST_WAIT = 4
"""Times the seconds that a slow competitor may use up for its fewest turns."""

Json = dict[str, Any]


def race(calls: Mapping[str, Callable[[], Times]], seconds: float) -> dict[str, Json]:
    """Let calls take turns until each has used `seconds`; the best and the median time of each, and how many."""
    spent, turns = dict.fromkeys(calls, 0.0), dict.fromkeys(calls, 0)
    times: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in calls}

    def waits(name: str) -> bool:
        return spent[name] < seconds or (turns[name] < FEWEST_TURNS and spent[name] < LONGEST_WAIT * seconds)

    while waiting := [name for name in calls if waits(name)]:
        for name in waiting:
            start = perf_counter()
            while True:
                for what, time in calls[name]().items():
                    times[name][what].append(time)
                if perf_counter() - start >= TURN:
                    break
            turns[name] += 1
            spent[name] += perf_counter() - start
    return {name: {what: summary(measured) for what, measured in parts.items()} for name, parts in times.items()}


def summary(times: list[float]) -> Json:
    """Three significant digits more than a clock on a shared machine deserves."""
    return {
        "best": float(f"{min(times):.5g}"),
        "median": float(f"{statistics.median(times):.5g}"),
        "repetitions": len(times),
    }


def stopwatch(what: str, call: Callable[[], object]) -> Callable[[], Times]:
    """A call that says how long it took."""

    def timed() -> Times:
        start = perf_counter()
        call()
        return {what: perf_counter() - start}

    return timed
