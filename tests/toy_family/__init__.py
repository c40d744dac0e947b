"""A family of experiments as small as one can be: a straight line is fitted to noisy points."""

SHOWS = ("fits",)
RUNS = ("fit",)
