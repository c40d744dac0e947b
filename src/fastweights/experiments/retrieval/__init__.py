"""The synthetic retrieval experiments: how much a memory holds, and whether it can overwrite (Sec. 6.1, App. C)."""

SHOWS = ("figure1", "figure2", "figure3", "figure4", "figure5", "writes")
RUNS = ("capacity", "overwriting")
RECORDS = "records of finished synthetic runs, {solved} of them solved to the stopping loss"
