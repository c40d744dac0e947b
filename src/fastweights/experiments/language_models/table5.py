"""Table 5: feature maps with more features than dimensions (App. E)."""

from fastweights.experiments.language_models.tables import PaperTable

TITLE = "Table 5: more features than dimensions"
TEXT = (
    "Feature maps with twice as many features as keys have components: the memories are larger than those of Table 2."
)
ARGUMENTS = " --threads 1"
TABLE = PaperTable(
    "table5",
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
runs, coverage, data, contents = TABLE.runs, TABLE.coverage, TABLE.data, TABLE.contents
