"""Recall and state tracking beyond the paper: bindings that change, and words over groups."""

SHOWS = ("states", "rebinding")
RUNS = ("parity", "counting", "words", "recall", "rebinding")
