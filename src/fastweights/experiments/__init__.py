"""What the paper shows, one module per figure or table, each with `runs()` and `report()`."""

FIGURES = ("figure1", "figure2", "figure3", "figure4", "figure5")
"""Modules of the synthetic experiments; imported when they are needed."""
