"""Language models whose memory is carried over a long text: perplexity by position, from records that have it."""

from collections.abc import Iterable
from dataclasses import dataclass

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.language_models.config import Carrying, LanguageModellingConfig
from fastweights.experiments.language_models.presets import is_unchanged, size_of, with_usual_seed
from fastweights.experiments.memories import memory_name
from fastweights.experiments.records import Records
from fastweights.experiments.retrieval.names import name_in
from fastweights.experiments.series import MEMORY_SERIES
from fastweights.feature_maps import FEATURE_MAPS
from fastweights.memory import NORMALISATIONS
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.update_rules import UPDATE_RULES

MAP_NAMES = {"elu": "ELU+1", "dpfp": "DPFP-1"}
"""What the maps of language models are called in tables."""


@dataclass(frozen=True)
class Positions:
    """One seed's perplexities from each edge to the next: with the memory carried on, and with it reset."""

    preset: str
    memory: str
    label: str
    carried_in_training: bool
    edges: tuple[int, ...]
    carried: tuple[float, ...]
    reset: tuple[float, ...]
    feature_map: str = "ELU+1"
    encoded: bool = False
    """True with positional encodings, of which only those of one segment were trained: what happens further on is due
    to them too."""

    @property
    def drift(self) -> float:
        """How much worse the carried memory is on the last stretch than one that is reset: 0.18 is 18 %."""
        return self.carried[-1] / self.reset[-1] - 1


def positions(records: Records) -> tuple[Positions, ...]:
    """What the records of the presets on WikiText-2 hold, every seed, in the order of their names."""
    found = []
    for run, record in records.items():
        measured, task = record.result.get("positions"), run.task
        # Another text stands in a table of its own (`language_models.budget`).
        if not measured or size_of(run) == "cpu-long" or not is_unchanged(with_usual_seed(run)):
            continue
        assert isinstance(task, LanguageModellingConfig)
        attention = task.model.attention
        if not isinstance(attention, FastWeightAttentionConfig):
            continue
        memory = memory_name(attention.update_rule, attention.normalisation, attention.attention_normalisation)
        parts = (label_of(attention, memory), "with positions" * task.model.positions, carrying_of(task.carrying))
        carried, reset = (tuple(perplexity_of(loss) for loss in measured[side]) for side in ("carried", "reset"))
        label, edges = ", ".join(part for part in parts if part), tuple(measured["edges"])
        where = (map_name(attention), task.model.positions)
        found.append(Positions(run.preset, memory, label, task.carry_state, edges, carried, reset, *where))
    return tuple(sorted(found, key=lambda one: (one.carried_in_training, one.preset)))


def by_model(models: Iterable[Positions]) -> dict[str, list[Positions]]:
    """The seeds of each preset."""
    found: dict[str, list[Positions]] = {}
    for one in models:
        found.setdefault(one.preset, []).append(one)
    return found


def carrying_of(way: Carrying) -> str:
    """What is unusual about carrying in training, in words; nothing if memories last as long as the text."""
    if way.published_gradient:
        return "published gradient"
    if way.rewritten:
        return f"{way.rewritten} segments rewritten"
    if way.reset_chance:
        return "reset at random"
    return f"reset every {way.reset_every} segments" if way.reset_every else ""


def label_of(attention: FastWeightAttentionConfig, memory: str) -> str:
    """The memory in words, and its feature map."""
    rule, normalisation = name_in(UPDATE_RULES, attention.update_rule), name_in(NORMALISATIONS, attention.normalisation)
    words = f"{rule.replace('-', ' ')}, {normalisation.replace('-', ' ').replace('l2', 'L2')}"
    label = MEMORY_SERIES[memory].label if memory in MEMORY_SERIES else words
    return f"{label}, {map_name(attention)}"


def map_name(attention: FastWeightAttentionConfig) -> str:
    """What tables call the feature map."""
    name = name_in(FEATURE_MAPS, attention.feature_map)
    return MAP_NAMES.get(name, name)
