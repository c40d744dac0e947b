"""Language models whose memory is carried over a long text: perplexity by position, from records that have it."""

from dataclasses import dataclass

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.presets import size_of
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
    """Perplexities of the words from one edge to the next: with the memory carried on, and with it reset."""

    preset: str
    memory: str
    label: str
    carried_in_training: bool
    edges: tuple[int, ...]
    carried: tuple[float, ...]
    reset: tuple[float, ...]

    @property
    def drift(self) -> float:
        """How much worse the carried memory is on the last stretch than one that is reset: 0.18 is 18 %."""
        return self.carried[-1] / self.reset[-1] - 1


def positions(records: Records) -> tuple[Positions, ...]:
    """All that the records of language models hold, in the order of their presets."""
    found = []
    for run, record in records.items():
        measured, task = record.result.get("positions"), run.task
        if not isinstance(task, LanguageModellingConfig) or not measured or size_of(run) == "cpu-long":
            # Another text stands in a table of its own (`language_models.budget`).
            continue
        attention = task.model.attention
        if not isinstance(attention, FastWeightAttentionConfig):
            continue
        memory = memory_name(attention.update_rule, attention.normalisation, attention.attention_normalisation)
        sides = (tuple(perplexity_of(loss) for loss in measured[side]) for side in ("carried", "reset"))
        edges = tuple(measured["edges"])
        found.append(Positions(run.preset, memory, label_of(attention, memory), task.carry_state, edges, *sides))
    return tuple(sorted(found, key=lambda one: (one.carried_in_training, one.preset)))


def label_of(attention: FastWeightAttentionConfig, memory: str) -> str:
    """The memory in words, and its feature map."""
    rule, normalisation = name_in(UPDATE_RULES, attention.update_rule), name_in(NORMALISATIONS, attention.normalisation)
    feature_map = name_in(FEATURE_MAPS, attention.feature_map)
    words = f"{rule.replace('-', ' ')}, {normalisation.replace('-', ' ').replace('l2', 'L2')}"
    label = MEMORY_SERIES[memory].label if memory in MEMORY_SERIES else words
    return f"{label}, {MAP_NAMES.get(feature_map, feature_map)}"
