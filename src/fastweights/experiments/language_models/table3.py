"""Table 3: positions and attention normalisation (Sec. 6.3)."""

from fastweights.experiments.language_models.tables import PaperTable
from fastweights.experiments.records import Records
from fastweights.reporting.report import Section

TITLE = "Table 3: positions and attention normalisation"
ARGUMENTS = " --threads 1"
TABLE = PaperTable(
    "table3",
    TITLE,
    "The Linear Transformer with the delta rule, with and without positional encodings and attention "
    "normalisation. The order of writes is in the memory itself, so positions may not be needed.",
    ("positions", "attention normalisation"),
    {
        ("yes", "yes"): "linear-delta-attnnorm",
        ("no", "yes"): "linear-delta-attnnorm-nopos",
        ("yes", "no"): "linear-delta",
        ("no", "no"): "linear-delta-nopos",
    },
    ("medium",),
)
runs, coverage, data = TABLE.runs, TABLE.coverage, TABLE.data


def report(records: Records) -> Section:
    """The table, with our perplexities beside the paper's."""
    return TABLE.section(records)
