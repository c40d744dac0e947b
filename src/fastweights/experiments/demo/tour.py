"""The paper in a minute: a memory overwritten, how much it holds, what each rule learns, and a tiny language model."""

from dataclasses import replace
from pathlib import Path

from fastweights.experiments.carry_out import sweep_runs
from fastweights.experiments.demo import images, language_model, memory
from fastweights.experiments.images.images import drawing as retrieved_pictures
from fastweights.experiments.ledger import claims_table, row
from fastweights.experiments.records import Records, load
from fastweights.experiments.retrieval import figure2, figure3
from fastweights.experiments.retrieval.claims import CLAIMS
from fastweights.experiments.retrieval.config import RetrievalConfig
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.outcomes import NEARLY_SOLVED, Outcomes, outcome, published
from fastweights.experiments.retrieval.presets import preset
from fastweights.experiments.retrieval.series import CAPACITY, OVERWRITING, feature_dim
from fastweights.reporting import Report, Section, print_table
from fastweights.runs.display import number
from fastweights.training.run import Run

KEY_DIM = 32
"""Half of the paper's, so that memories are full after half as many associations."""
MAPS, SIZES = ("elu", "dpfp1", "dpfp2"), (16, 24, 32, 48, 64, 96, 128, 160)
RULES, SIZE = (("dpfp1", "delta"), ("dpfp1", "sum"), ("dpfp1", "schlag2021")), 20
MAX_STEPS = 1000
"""Enough to see where each model ends; a full run may take several thousand."""
LEARNING_RATE, PATIENCE = 3e-3, 4
"""For capacity: three times the paper's, and a third of it, to get there sooner."""

CHECKED = {"capacity is bounded by d_dot", "the delta rule is best", "the sum rule fails", "one stopping loss for all"}
"""Claims that the demo's runs can decide."""


def run(folder: Path, jobs: int) -> None:
    """From nothing to a report in `folder`, telling on the way what happens."""
    memory.run(folder)
    print_table(
        f"Pictures in a memory that nothing has trained: error of what {images.KEYS} keys retrieve",
        ("memory", "written once", "2 × on average", "8 × on average"),
        images.rows(),
    )
    print("Now small memories are trained: how many associations fit, and which rule learns to overwrite?")
    sweep_runs(runs(), folder, jobs=jobs, title="fastweights run demo")
    records = load(folder)
    capacity, overwriting = capacity_outcomes(records), overwriting_outcomes(records)
    print_table(
        "How many associations fit",
        ("feature map", "features d_dot", f"largest S with loss ≤ {NEARLY_SOLVED}", f"loss at S = {SIZES[-1]}"),
        capacity_rows(capacity),
    )
    print_table(
        f"Learning to overwrite {SIZE} keys",
        ("variant", "best loss", "steps"),
        [(OVERWRITING[o.model, o.rule].label, number(o.best), f"{o.steps} ({o.stopped_because})") for o in overwriting],
    )
    print("At last a language model with such memories, trained on the help texts that come with Python:")
    written = language_model.run(folder)
    report = demo_report(capacity, overwriting, written)
    claims = report.sections[-1].tables[0].rows
    verdicts = [(claim[1].partition(". ")[0], claim[-1]) for claim in claims]
    print_table("Claims of the paper", ("claim", "verdict"), verdicts)
    print(f"The report is in {report.save(folder)}")
    print("Try next: fastweights reproduce figure3 --quick                  the paper's own experiments, in minutes")
    print("          fastweights run overwriting --set num_keys=40          a run of your own")
    print("          fastweights run capacity --set attention.feature_map.nu=3 --set num_keys=120")
    print("          fastweights list                                       every feature map and rule")
    print("          fastweights train --preset cpu-dpfp-delta --data YOUR_TEXT --out run   a language model")


def runs() -> list[Run]:
    """The paper's two tasks, smaller: a memory of fewer features, at most MAX_STEPS steps, little patience."""
    return [*capacity_runs().values(), *overwriting_runs().values()]


def capacity_runs() -> dict[tuple[str, int], Run]:
    """Setting 1 with smaller keys, sooner at its end."""
    return {(model, size): smaller(model, size) for model in MAPS for size in SIZES}


def smaller(model: str, size: int) -> Run:
    """A run of setting 1 with smaller keys, a higher learning rate and little patience."""
    run = preset("capacity", model, "sum", size, 1, AS_PUBLISHED)
    assert isinstance(run.task, RetrievalConfig)
    return replace(
        run,
        task=replace(run.task, key_dim=KEY_DIM),
        training=replace(run.training, learning_rate=LEARNING_RATE, steps=MAX_STEPS),
        stopping=replace(run.stopping, patience=PATIENCE),
    )


def overwriting_runs() -> dict[tuple[str, str], Run]:
    """Setting 2 with fewer steps."""
    runs = {pair: preset("overwriting", *pair, SIZE, 1, AS_PUBLISHED) for pair in RULES}
    return {pair: replace(run, training=replace(run.training, steps=MAX_STEPS)) for pair, run in runs.items()}


def capacity_outcomes(records: Records) -> Outcomes:
    return Outcomes(tuple(outcome(run, records[run], model, "sum") for (model, _), run in capacity_runs().items()))


def overwriting_outcomes(records: Records) -> Outcomes:
    return Outcomes(tuple(outcome(run, records[run], *pair) for pair, run in overwriting_runs().items()))


def capacity_rows(found: Outcomes) -> list[tuple[str, ...]]:
    """For each map what fits into its memory."""
    rows: list[tuple[str, ...]] = []
    for model in MAPS:
        outcomes = found.where(model=model)
        solved = outcomes.largest_solved(NEARLY_SOLVED)
        width = feature_dim(model, KEY_DIM)
        rows.append((CAPACITY[model].label, str(width), str(solved), number(outcomes.best(SIZES[-1]))))
    return rows


def demo_report(capacity: Outcomes, overwriting: Outcomes, written: language_model.Written) -> Report:
    """The results of the demo as a page."""
    nothing = Outcomes(())
    theirs = Outcomes(tuple(o for pair in RULES for o in published().where("overwriting", *pair, num_keys=SIZE)))
    ours = Outcomes((*capacity, *overwriting))
    checked = [row(claim, claim.judge(published()), ours) for claim in CLAIMS if claim.name in CHECKED]
    return Report(
        "A fast-weight memory in a minute",
        (
            "Attention without softmax is a matrix that is written and read. It holds as many associations "
            "as its keys have features, and it can replace one only if the update rule takes the old value "
            "out.",
        ),
        (
            Section(
                "One association is overwritten",
                (
                    "Six pictures are stored under six keys, then one key gets a new picture. The sum rule "
                    "adds it on top of the old one; the delta rule looks up what the key retrieves and "
                    "writes only the difference.",
                ),
                (memory.drawing(),),
            ),
            Section(images.TITLE, (images.TEXT,), (retrieved_pictures(images.measured()),)),
            Section(
                "How many associations fit",
                (
                    f"Keys of {KEY_DIM} components, each association written once (the paper's setting 1 "
                    "at half its size). The loss rises where S passes the number of features.",
                ),
                (figure2.drawing(capacity, nothing, KEY_DIM),),
            ),
            Section(
                "Learning to overwrite",
                (f"The paper's setting 2 with S = {SIZE}; each run has at most {MAX_STEPS} steps.",),
                (figure3.drawing(overwriting, theirs, SIZE),),
            ),
            language_model.section(written),
            Section(
                "Claims of the paper",
                (
                    "What could be checked in a minute. `fastweights reproduce` runs the paper's own sizes "
                    "and checks all of its claims about these tasks.",
                ),
                tables=(claims_table(checked),),
            ),
        ),
        "Made by `fastweights demo`. Published runs: those that the authors of the paper put beside their code.",
    )
