"""Recording what the memories of a model do: `with record(model) as seen: model(x)`.

A layer that writes a memory is `Observed`: its `observer` is None; `record` puts a `LayerTrace` there for a while, and
the layer shows it every sequence that it writes. So recording costs nothing when it is off, and works inside models
that know nothing of it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn
from typing_extensions import override

from fastweights.memory.layer_trace import LayerTrace
from fastweights.memory.trace import Observation
from fastweights.memory.trace_table import TraceTable

Observer = Callable[[Observation], None]


class Observed:
    """A layer that shows its observer, if it has one, every sequence that it writes."""

    observer: Observer | None = None

    @property
    def is_observed(self) -> bool:
        """True if somebody wants to see this pass: not one that a backward pass repeats (gradient checkpointing)."""
        return self.observer is not None and torch._C._current_graph_task_id() == NO_BACKWARD

    def show(self, observation: Observation) -> None:
        """Show a sequence to the observer, in full precision and without a trace in autograd's graph."""
        assert self.observer is not None
        with torch.no_grad(), torch.autocast(observation.writes.keys.device.type, enabled=False):
            self.observer(observation)


NO_BACKWARD = -1
"""The number of autograd's graph task outside backward passes."""


class Recording(Mapping[str, LayerTrace]):
    """The traces of a model by the names of its layers."""

    def __init__(self, traces: Mapping[str, LayerTrace]) -> None:
        self.traces = dict(traces)

    @override
    def __getitem__(self, layer: str) -> LayerTrace:
        if layer not in self.traces:
            raise KeyError(f"{layer}: no such layer was recorded; possible: {', '.join(self.traces)}")
        return self.traces[layer]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.traces)

    @override
    def __len__(self) -> int:
        return len(self.traces)

    def summary(self) -> TraceTable:
        """One row for every layer and head: means over all writes, and what the memory looks like at the end."""
        return TraceTable.joined("layer", {name: trace.summary() for name, trace in self.traces.items() if trace.steps})

    def to_table(self) -> TraceTable:
        """One row for every layer, sequence, head and kept write."""
        return TraceTable.joined("layer", {name: trace.to_table() for name, trace in self.traces.items()})


@contextmanager
def record(
    model: nn.Module, *, every: int = 1, limit: int | None = None, spectra_every: int | None = None
) -> Iterator[Recording]:
    """Record every write of every fast-weight layer of a model, over all calls inside the `with`.

    Every `every`-th write is kept; with `limit`, whenever there are more, every second one is dropped, so that a text
    of any length takes constant memory. Means of the summary count all writes in any case. The singular values of W
    are taken every `spectra_every` writes, and at the end.
    """
    for name, value in {"every": every, "limit": limit, "spectra_every": spectra_every}.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name}: must be an integer of at least 1, got {value!r}")
    traces: dict[str, LayerTrace] = {}

    def observer(name: str) -> Observer:
        return traces.setdefault(name, LayerTrace(every, limit, spectra_every))

    with observe(model, observer):
        yield Recording(traces)


@contextmanager
def observe(model: nn.Module, observer_of: Callable[[str], Observer]) -> Iterator[None]:
    """Give every fast-weight layer of a model the observer for its name, which is shown every sequence it writes."""
    layers = {name: module for name, module in model.named_modules() if isinstance(module, Observed)}
    if not layers:
        raise ValueError(f"model: {type(model).__name__} has no fast-weight layer to record")
    if busy := [name for name, layer in layers.items() if layer.observer is not None]:
        raise ValueError(f"model: {busy[0] or type(model).__name__} is being recorded already")
    try:
        for name, layer in layers.items():
            layer.observer = observer_of(name)
        yield
    finally:
        for layer in layers.values():
            layer.observer = None
