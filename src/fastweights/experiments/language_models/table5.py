"""Table 5: feature maps with more features than dimensions (App. E)."""

from fastweights.experiments.language_models.tables import PaperTable
from fastweights.experiments.records import Records
from fastweights.reporting.report import Section

TITLE = "Table 5: more features than dimensions"
ARGUMENTS = " --threads 1"
TABLE = PaperTable(
    "table5",
    TITLE,
    "Feature maps with twice as many features as keys have components: the memories are larger than those of Table 2.",
    ("model", "update rule"),
    {
        ("Transformer", "–"): "transformer",
        ("Performer", "sum"): "performer-wide-sum",
        ("Performer", "delta"): "performer-wide-delta",
        ("DPFP-1", "sum"): "dpfp-sum",
        ("DPFP-1", "delta"): "dpfp-delta",
    },
    ("small",),
)
runs, coverage, data = TABLE.runs, TABLE.coverage, TABLE.data


def report(records: Records) -> Section:
    """The table, with our perplexities beside the paper's."""
    return TABLE.section(records)
