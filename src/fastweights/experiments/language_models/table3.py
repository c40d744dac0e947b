"""Table 3: positions and attention normalisation (Sec. 6.3)."""

from fastweights.experiments.language_models.tables import PaperTable

TITLE = "Table 3: positions and attention normalisation"
TEXT = (
    "The Linear Transformer with the delta rule, with and without positional encodings and attention "
    "normalisation. The order of writes is in the memory itself, so positions may not be needed."
)
ARGUMENTS = " --threads 1"
TABLE = PaperTable(
    "table3",
    ("positions", "attention normalisation"),
    {
        ("yes", "yes"): "linear-delta-attnnorm",
        ("no", "yes"): "linear-delta-attnnorm-nopos",
        ("yes", "no"): "linear-delta",
        ("no", "no"): "linear-delta-nopos",
    },
    ("medium",),
)
runs, coverage, data, contents = TABLE.runs, TABLE.coverage, TABLE.data, TABLE.contents
