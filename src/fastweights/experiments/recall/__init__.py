"""Recall and state tracking beyond the paper: bindings that change, and words over groups."""

SHOWS = ("states", "rebinding")
RUNS = ("parity", "counting", "words-s3", "words-s5-swaps", "words-s5-cycles", "rebinding", "rebinding-64", "recall-64")
RECORDS = "records of recall and state tracking"
