"""The paper's claims about the synthetic experiments, and where its text differs from its code and logs."""

from fastweights.experiments.retrieval import capacity_claims, overwriting_claims, review
from fastweights.experiments.retrieval.outcomes import outcomes, published

CLAIMS, REVIEW = (*capacity_claims.CLAIMS, *overwriting_claims.CLAIMS), review.REVIEW
theirs, ours = published, outcomes

DISAGREEMENTS = (
    (
        "length of evaluation sequences, setting 2",
        "as in training, L = 2S",
        "L = S in both settings: fewer keys are overwritten, and the floor of order-blind rules halves",
        "both are recorded at every evaluation; stopping follows the published one",
    ),
    (
        "queries of an evaluation",
        "all possible queries of 20 sequences",
        "the keys with the 200 lowest indices",
        "as published, for comparison; the text's with `--set protocol=text`",
    ),
    (
        "mean of an evaluation",
        "over all queries",
        "of the means of batches: the keys of a short last batch weigh up to four times more",
        "as published, for comparison; the text's with `--set protocol=text`",
    ),
    ("loss shown in Figures 2 and 5", "the best", "the last", "the best; both are in the records"),
    ("patience", "1000 steps without progress", "11 evaluations, 1100 steps", "as published"),
    (
        "FAVOR+ in evaluation",
        "features drawn once and kept",
        "redrawn for every batch of an evaluation",
        "as published; fixed under the text's protocol",
    ),
    (
        "initial scale",
        "not stated",
        "W_K, W_Q uniform in ±1/√d_key whatever their fan-in: |k|² grows with S",
        "as published; this is what makes FAVOR+ underflow",
    ),
    (
        "repetitions",
        "not stated",
        "one seed, 1, whatever was asked for",
        "one seed in Figures 2, 4 and 5 (five of softmax attention), three in Figure 3",
    ),
)
