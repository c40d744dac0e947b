"""What a memory becomes over many steps: its accumulator, its weights, and what a write still changes (Sec. 4.2)."""

SHOWS = ("growth",)
RUNS = ("growth",)
