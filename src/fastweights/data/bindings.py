"""Variables that are bound to values and asked for: recall of many pairs (MQAR), and the same with rebinding.

Multi-query associative recall (Arora et al., 2023) binds every variable once. With rebinding, a variable that comes
again has a new value, and the newest one is asked for: what the sum rule cannot do and the delta rule is made for.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastweights.config import require_at_least
from fastweights.data.marked import NOTHING, MarkedSteps

OFTEN = 8
"""Variables that were rebound so often or more are one group."""


@dataclass(frozen=True)
class Bindings:
    """Events of two tokens: `x v` binds variable x to value v, `Q x` asks for the value of a variable bound before.

    A share of the events are questions, the first event never is. Without `rebinding` every variable is bound once, in
    random order, and questions fill the rest: there must be room for all variables. The group of a question is how
    often its variable had been rebound, at most `OFTEN`.
    """

    variables: int = 8
    values: int = 8
    events: int = 32
    questions: float = 0.3
    rebinding: bool = True

    def __post_init__(self) -> None:
        require_at_least(2, self, "variables", "values", "events")
        if not 0 < self.questions < 1:
            raise ValueError(f"questions: expected a share between 0 and 1, got {self.questions}")
        if not self.rebinding and self.events < self.variables + 1:
            raise ValueError(
                f"events: without rebinding at least {self.variables + 1} are needed for {self.variables} variables, "
                f"got {self.events}"
            )

    @property
    def num_tokens(self) -> int:
        """Variables, values, and Q."""
        return self.variables + self.values + 1

    @property
    def num_classes(self) -> int:
        """The values that can be asked for."""
        return self.values

    def draw(self, rows: int, times: int, random: np.random.Generator) -> MarkedSteps:
        """Random sequences with `times` as many events; without rebinding the events more are questions."""
        events = times * self.events
        is_question = self._which_ask(rows, events, random)
        variables = self._variables(is_question, random)
        values = random.integers(self.values, size=(rows, events))
        inputs = np.empty((rows, events, 2), dtype=np.int64)
        targets, groups = np.full_like(inputs, NOTHING), np.zeros_like(inputs)
        bound = np.zeros((rows, self.variables), dtype=np.int64)
        count = np.zeros_like(bound)
        every = np.arange(rows)
        for event in range(events):
            asks, variable = is_question[:, event], variables[:, event]
            inputs[:, event, 0] = np.where(asks, self.variables + self.values, variable)
            inputs[:, event, 1] = np.where(asks, variable, self.variables + values[:, event])
            targets[:, event, 1] = np.where(asks, bound[every, variable], NOTHING)
            groups[:, event, 1] = np.where(asks, np.minimum(count[every, variable] - 1, OFTEN), 0)
            bound[every, variable] = np.where(asks, bound[every, variable], values[:, event])
            count[every, variable] += ~asks
        return MarkedSteps.of(*(x.reshape(rows, 2 * events) for x in (inputs, targets, groups)))

    def _which_ask(self, rows: int, events: int, random: np.random.Generator) -> NDArray[np.bool_]:
        if self.rebinding:
            asks = random.random((rows, events)) < self.questions
        else:
            rank = random.random((rows, events - 1)).argsort(axis=1).argsort(axis=1)
            asks = np.concatenate([np.zeros((rows, 1), dtype=bool), rank >= self.variables - 1], axis=1)
        asks[:, 0] = False
        return asks

    def _variables(self, asks: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.int64]:
        """Which variable every event is about: any one, or the next one; of a question one that was bound before."""
        rows, events = asks.shape
        if self.rebinding:
            variables = random.integers(self.variables, size=(rows, events))
        else:
            order = random.random((rows, self.variables)).argsort(axis=1)
            place = np.minimum((~asks).cumsum(axis=1) - 1, self.variables - 1)
            variables = np.take_along_axis(order, place, axis=1)
        seen = np.zeros((rows, self.variables), dtype=bool)
        every, wish = np.arange(rows), random.random((rows, events, self.variables))
        for event in range(events):
            among_seen = np.where(seen, wish[:, event], -1.0).argmax(axis=1)
            variables[:, event] = np.where(asks[:, event], among_seen, variables[:, event])
            seen[every, variables[:, event]] = True
        return variables
