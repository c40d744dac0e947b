"""The contrast between what a key retrieves and what is written under it, by normalisation (Sec. 4.2, App. A.2)."""

SHOWS = ("contrast",)
RUNS = ("contrast",)
