"""The label, colour and marker of each model of `contenders.py` and each memory of `memories.py`, in every figure."""

from fastweights.reporting import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Series

CONTENDER_SERIES = {
    "softmax": Series("softmax attention", BLACK, "o"),
    "sum": Series("sum rule", ORANGE, "s", "--"),
    "delta-attention": Series("delta, attention-normalised", VERMILION, "P", "--"),
    "delta": Series("delta, sum-normalised (the paper's)", SKY, "D"),
    "nlms": Series("delta, sum-normalised, NLMS step", BLUE, "^"),
    "delta-l2": Series("delta, L2", GREEN, "v"),
    "delta-centred": Series("delta, centred L2", PURPLE, "X"),
    "gated-delta": Series("gated delta, L2", GREY, "*", "-."),
    "kimi-delta": Series("Kimi delta, L2", GREY, "h", ":"),
    "signed-delta": Series("delta, β in (0, 1)", SKY, "D", "--"),
    "signed-delta-2": Series("delta, β in (0, 2)", BLUE, "^"),
    "product2": Series("two delta writes a step, β in (0, 2)", GREEN, "v"),
    "product3": Series("three delta writes a step, β in (0, 2)", VERMILION, "P"),
    "product4": Series("four delta writes a step, β in (0, 2)", PURPLE, "X"),
}

MEMORY_SERIES = {
    "delta-none": Series("delta, no normalisation", GREY, "X"),
    "delta-attention": Series("delta, attention", VERMILION, "P"),
    "delta-sum-attention": Series("delta, sum and attention", ORANGE, "v", "--"),
    "delta-sum": Series("delta, sum (the paper)", BLACK, "o"),
    "delta-l2": Series("delta, L2", SKY, "s"),
    "delta-centred-l2": Series("delta, centred L2", BLUE, "D"),
    "nlms-sum": Series("NLMS, sum", GREEN, "^"),
    "sum-attention": Series("sum rule, attention", PURPLE, "*", "--"),
}
