"""Table 1: translation with linear attention in encoder, decoder and between them (Sec. 6.2)."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from fastweights.data.translation_download import PUBLIC_PAIRS
from fastweights.experiments.model_scores import over_seeds
from fastweights.experiments.options import DataOptions, ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.experiments.translation.claims import CLAIMS, SPLITS, in_words, is_better
from fastweights.experiments.translation.presets import PRESETS, corpus_name, followed_preset, on_data
from fastweights.experiments.translation.scores import (
    PAPER,
    PAPER_CORPUS,
    Corpora,
    Scores,
    corpus_of,
    model_of,
    scores,
)
from fastweights.files import Json
from fastweights.reporting import Table
from fastweights.training.run import Run

__all__ = ["ARGUMENTS", "TEXT", "TITLE", "Table", "contents", "coverage", "data", "runs"]

TITLE = "Table 1: translation"
TEXT = (
    "The same attention in the encoder, the decoder and between them; every model has the same updates with the same "
    "batches. Paper and our runs translate other corpora, so their scores stand in columns of their own: the order of "
    "the models is what can be compared, among runs with as many updates. BLEU of the step with the best greedy BLEU "
    "on the validation pairs, beam 4; ± is the standard deviation over seeds."
)
ARGUMENTS = " --data multi30k --jobs 2"
SEEDS = (1, 2, 3)
MODELS = {
    ("Standard", "–"): "standard",
    ("Linear", "d_key"): "linear",
    ("Performer", "d_key"): "performer-x1",
    ("Performer", "4 d_key"): "performer-x4",
    ("Performer", "8 d_key"): "performer-x8",
    ("DPFP-1", "2 d_key"): "dpfp1",
    ("DPFP-2", "4 d_key"): "dpfp2",
    ("DPFP-4", "8 d_key"): "dpfp4",
    ("DPFP-2, delta rule in the decoder", "4 d_key"): "dpfp2-delta",
}
"""What a model is called and its d_dot, with its name."""
COMPARISONS = (
    ("standard", "linear"),
    ("standard", "performer-x8"),
    ("performer-x8", "performer-x1"),
    ("dpfp2", "linear"),
    ("dpfp2", "performer-x4"),
    ("performer-x8", "dpfp4"),
    ("dpfp2-delta", "dpfp2"),
)
"""Which models are compared, the one that is expected ahead first."""


def data(options: ReproduceOptions) -> str:
    """The folder of the pairs; only WMT14 has a name that can be downloaded."""
    if options.data is None and options.scale == "cpu":
        raise ValueError(
            "data: Table 1 needs a folder with the pairs, such as Multi30k's train.en, train.de, val.* and test*.*; "
            f"--scale paper takes {next(iter(PUBLIC_PAIRS))} by name"
        )
    return options.data or next(iter(PUBLIC_PAIRS))


def runs(options: ReproduceOptions) -> list[Run]:
    """Every model with every seed; Multi30k's short sentences have presets of their own."""
    if options.quick:
        raise ValueError("--quick is for figures; tables have one length of training")
    pairs = data(options)
    size = "big" if options.scale == "paper" else "europarl" if "europarl" in corpus_name(pairs) else "cpu"
    seeds = options.seeds or (SEEDS if size == "cpu" else SEEDS[:1])
    starts = [run for name, run in PRESETS.items() if name.startswith(f"translation-{size}-")]
    prepared = [on_data(run, DataOptions(data=pairs))[0] for run in starts]
    return [replace(run, training=replace(run.training, seed=seed)) for seed in seeds for run in prepared]


def coverage(records: Records) -> Coverage:
    """How many of the runs for CPUs have a record: three seeds on Multi30k, one on Europarl; and longer ones if any."""
    presets = {run: followed_preset(run) for run in records if run.training.seed in SEEDS}
    found = {run: preset for run, preset in presets.items() if preset is not None}
    longer = sum(preset.split("-")[1] not in ("cpu", "europarl") for preset in found.values())
    return Coverage([records[run] for run in found], len(MODELS) * (len(SEEDS) + 1) + longer)


def contents(records: Records) -> tuple[Table, ...]:
    """BLEU beside the paper's, verdicts by corpus, which differences are more than chance, and what the runs took."""
    found = scores(records)
    return table(found), short_table(found), verdicts(found), comparisons(found), costs(records)


def table(found: Corpora) -> Table:
    """The paper's scores, then those of every corpus that was trained on."""
    heads = [f"{split}, paper, {PAPER_CORPUS}" for split in SPLITS]
    for corpus in found.found:
        heads += [*(f"{split}, ours, {corpus}" for split in SPLITS), f"brevity penalty, test, {corpus}"]
    rows = []
    for labels, model in MODELS.items():
        cells = [*labels, *_cells(PAPER.get(PAPER_CORPUS, model))]
        for corpus in found.found:
            score = found.get(corpus, model)
            cells += [*_cells(score), _brevity(score)]
        rows.append(tuple(cells))
    signatures = sorted({score.signature for models in found.found.values() for score in models.values()})
    caption = f"BLEU, {' and '.join(f'`{one}`' for one in signatures)}." if signatures else "BLEU."
    return Table("table1", caption, ("model", "d_dot", *heads), tuple(rows) if found.found else ())


def short_table(found: Corpora) -> Table:
    """BLEU on test pairs alone, of every corpus on which several models were trained."""
    corpora = compared(found)
    rows = [
        (*labels, *(_cells(each.get(corpus, model))[1] for each, corpus in ((PAPER, PAPER_CORPUS), *corpora)))
        for labels, model in MODELS.items()
    ]
    heads = (f"paper, {PAPER_CORPUS}", *(f"ours, {corpus}" for _, corpus in corpora))
    return Table("table1-test", "BLEU on test pairs.", ("model", "d_dot", *heads), tuple(rows) if corpora else ())


def verdicts(found: Corpora) -> Table:
    """Each claim, judged by its one rule for every corpus by itself."""
    corpora = [corpus for _, corpus in compared(found)]
    rows = [
        (
            claim.says,
            claim.judge(PAPER).verdict,
            *(claim.judge(Corpora({corpus: found.found[corpus]})).verdict for corpus in corpora),
        )
        for claim in CLAIMS
    ]
    columns = ("what the paper says", f"its own numbers, {PAPER_CORPUS}", *corpora)
    caption = "The same rules as in the table of claims, for one corpus at a time."
    return Table("table1-verdicts", caption, columns, tuple(rows) if corpora else ())


def compared(found: Corpora) -> list[tuple[Corpora, str]]:
    """The corpora on which several models were trained."""
    return [(found, corpus) for corpus, models in found.found.items() if len(models) > 1]


def comparisons(found: Corpora) -> Table:
    """Pairs of models with what the paired bootstrap says about them."""
    rows = []
    for better, worse in COMPARISONS:
        for corpus, (first, second) in found.with_all(better, worse):
            verdicts = {True: f"{better} is better", False: f"{worse} is better", None: "undecided"}
            for split in SPLITS:
                verdict = verdicts[is_better(first, second, split)]
                rows.append((corpus, f"{better} – {worse}", in_words(first, second, split), verdict))
    columns = ("corpus", "models", "BLEU (difference, chance)", "verdict")
    caption = "Paired bootstrap over sentences (1000 samples) of the mean BLEU of all seeds."
    return Table("table1-comparisons", caption, columns, tuple(rows))


def costs(records: Records) -> Table:
    """The time of a core for training and for translating, by corpus and processor."""
    found: dict[str, dict[str, list[Json]]] = {}
    for run, record in records.items():
        if followed_preset(run) is not None and record.result.get("translating"):
            where = f"{corpus_of(run)}, {record.environment.get('processor', 'unknown processor')}"
            found.setdefault(where, {}).setdefault(model_of(run), []).append(record.result)
    heads = (f"{what}, {where}" for where in found for what in ("training, core minutes", "translating, sentences/s"))
    rows = [
        (*labels, *(cell for models in found.values() for cell in _costs(models.get(model, ()))))
        for labels, model in MODELS.items()
    ]
    caption = (
        "One core. Training includes greedy translations of the validation pairs; sentences of the validation and test "
        "pairs are translated with beam 4. Means over the seeds that were run on the processor."
    )
    return Table("table1-costs", caption, ("model", "d_dot", *heads), tuple(rows) if found else ())


def _costs(results: Sequence[Json]) -> tuple[str, str]:
    if not results:
        return "–", "–"
    minutes = fmean(result["core_seconds"] for result in results) / 60
    sentences = sum(len(score["statistics"]) for result in results for score in result["scores"].values())
    return f"{minutes:.1f}", f"{sentences / sum(result['translating']['core_seconds'] for result in results):.0f}"


def _cells(score: Scores | None) -> tuple[str, str]:
    return ("–", "–") if score is None else (over_seeds(score.valid), over_seeds(score.test))


def _brevity(score: Scores | None) -> str:
    return "–" if score is None else f"{sum(score.brevity) / len(score.brevity):.3f}"
