"""The runs of question answering by name: a task of bAbI and a model of `contenders.py`."""

from fastweights.experiments.contenders import contender, training
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.questions.config import QuestionsConfig
from fastweights.experiments.records import Records
from fastweights.experiments.scores import AccuracyScores, Key, found
from fastweights.models.sequence_classifier import SequenceClassifierConfig
from fastweights.training.run import Run
from fastweights.training.stopping import Stopping

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
SEVERAL_FACTS = (2, 3)
"""Tasks whose answers join several sentences that stand apart: a layer more."""


def preset(
    name: str, model: str | None = None, rule: str | None = None, number: int = 1, examples: int = 10_000, seed: int = 1
) -> Run:
    """A task of bAbI with one of the contenders, whose name says the rule."""
    model = model or "delta-l2"
    attention, layers = contender(model, name, rule), 3 if number in SEVERAL_FACTS else 2
    config = QuestionsConfig(number, examples, SequenceClassifierConfig(attention, num_layers=layers))
    steps, evaluate_every = (200, 50) if examples <= 1_000 else (800, 100)
    recipe = training(steps, 32, 2e-3, evaluate_every, seed)
    return Run(config, recipe, Stopping(target=0.002), preset=f"qa{number}-{examples}-{model}")


def for_task(run: Run, model: str | None, rule: str | None) -> Run:
    """The preset of the task and the number of questions that a run has by now: name and recipe depend on both."""
    assert isinstance(run.task, QuestionsConfig)
    return preset("questions", model, rule, run.task.number, run.task.examples)


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
