"""Which models answer which tasks of bAbI, with which seeds: the table, the figure and the claims read one grid."""

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.questions.presets import preset
from fastweights.experiments.records import Records
from fastweights.experiments.scores import AccuracyScores, Key, found
from fastweights.training.run import Run

SEEDS = (1, 2, 3)
TASKS = {
    1: "single supporting fact",
    2: "two supporting facts",
    3: "three supporting facts",
    4: "two-argument relations",
    5: "three-argument relations",
    6: "yes/no questions",
    7: "counting",
    8: "lists and sets",
    9: "simple negation",
    10: "indefinite knowledge",
    11: "basic coreference",
    12: "conjunction",
    13: "compound coreference",
    14: "time reasoning",
    15: "basic deduction",
    16: "basic induction",
    17: "positional reasoning",
    18: "size reasoning",
    19: "path finding",
    20: "agents' motivations",
}
MANY_EXAMPLES = (1, 2, 5, 6, 11, 15)
"""Tasks that are run with 10,000 questions as well: relations that change, and 15, where nothing does."""
MODELS = ("softmax", "sum", "delta", "delta-l2")
DECIDING_TASKS, DECIDING_MODELS = (1, 5, 6, 11), ("delta", "nlms", "delta-l2")
"""What decides a claim has every seed, the rest the first."""
SOLVED = 0.95
"""The share of right answers from which on a task of bAbI counts as solved."""


def grid(options: ReproduceOptions = ReproduceOptions()) -> list[tuple[Key, Run]]:  # noqa: B008  a frozen value
    """Every run by the number of questions, the task and the model; `quick` has those with 1,000 questions."""
    wanted: list[tuple[int, int, str]] = [(1_000, task, model) for task in TASKS for model in MODELS]
    if not options.quick:
        wanted += [(10_000, task, model) for task in MANY_EXAMPLES for model in MODELS]
        wanted += [(10_000, task, "nlms") for task in DECIDING_TASKS]
    return [
        ((str(examples), str(task), model), preset("questions", model, None, task, examples, seed))
        for seed in options.seeds or (SEEDS[:1] if options.quick else SEEDS)
        for examples, task, model in wanted
        if seed == SEEDS[0] or (examples, task in DECIDING_TASKS, model in DECIDING_MODELS) == (10_000, True, True)
    ]


def scores(records: Records) -> AccuracyScores:
    """What the models answered."""
    return found(records, grid())
