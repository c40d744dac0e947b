"""Question answering with a memory: bAbI, one sentence a step, and relations that change."""

SHOWS = ("babi",)
RUNS = ("questions",)
RECORDS = "records of question answering"
