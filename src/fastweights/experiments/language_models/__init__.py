"""Language models whose attention is a fast-weight memory: Tables 2-5 of the paper (Sec. 6.3, App. E)."""

SHOWS = ("table2", "table3", "table4", "table5", "normalisations", "precision", "budget", "rates", "positions")
RUNS = ()
RECORDS = "records of language models"
