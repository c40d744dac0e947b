"""Table 4: without truncating the context, and how far back a carried memory helps (Sec. 6.3)."""

from fastweights.experiments.language_models.memory_span import memory_spans, span_figure
from fastweights.experiments.language_models.tables import PaperTable
from fastweights.experiments.records import Records
from fastweights.reporting.report import Section

TITLE = "Table 4: without truncating the context"
ARGUMENTS = " --threads 1"
TABLE = PaperTable(
    "table4",
    TITLE,
    "The memory is carried from each segment to the next, in training as in evaluation, and reset when the "
    "text begins anew. Gradients stay inside a segment. The published gradient of the sum rule left out "
    "what the carried memory contributes to queries; here it is complete.",
    ("model", "update rule"),
    {
        ("Linear", "sum"): "linear-sum-nopos-carried",
        ("Linear", "delta"): "linear-delta-nopos-carried",
        ("Transformer-XL", "–"): "transformer-xl",
    },
    ("medium",),
)
runs, coverage, data = TABLE.runs, TABLE.coverage, TABLE.data


def report(records: Records) -> Section:
    """The table, with our perplexities beside the paper's."""
    spans = memory_spans(records)
    return TABLE.section(records, (span_figure(spans),) if spans else ())
