"""Table 4: without truncating the context, and how far back a carried memory helps (Sec. 6.3)."""

from fastweights.experiments.language_models.memory_span import span_drawings
from fastweights.experiments.language_models.tables import PaperTable

TITLE = "Table 4: without truncating the context"
TEXT = (
    "The memory is carried from each segment to the next, in training as in evaluation, and reset when the "
    "text begins anew. Gradients stay inside a segment. The published gradient of the sum rule left out "
    "what the carried memory contributes to queries; here it is complete. Rows that the paper does not have ask what a "
    "memory needs to gain from being carried on: writes that land, a learned decay, memories that last eight segments "
    "in training (reset at random, or all together), or that are written anew by the present weights."
)
ARGUMENTS = " --threads 1"
TABLE = PaperTable(
    "table4",
    ("model", "update rule"),
    {
        ("Linear", "sum"): "linear-sum-nopos-carried",
        ("Linear", "delta"): "linear-delta-nopos-carried",
        ("Linear, centred L2", "delta"): "linear-delta-centred-nopos-carried",
        ("Linear", "gated delta"): "linear-gated-nopos-carried",
        ("Linear, centred L2", "gated delta"): "linear-gated-centred-nopos-carried",
        ("Linear, memories reset at random", "delta"): "linear-delta-nopos-carried-resets",
        ("Linear, columns of 8 segments", "delta"): "linear-delta-nopos-carried-columns",
        ("Linear, memories rewritten by the present weights", "delta"): "linear-delta-nopos-carried-rewritten",
        ("Linear, centred L2, memories reset at random", "delta"): "linear-delta-centred-nopos-carried-resets",
        ("Transformer-XL", "–"): "transformer-xl",
    },
    ("medium",),
)
runs, coverage, data, tables = TABLE.runs, TABLE.coverage, TABLE.data, TABLE.tables
drawings = span_drawings
