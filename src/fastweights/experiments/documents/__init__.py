"""Translation of documents: does a memory that goes on from sentence to sentence help?"""

SHOWS = ("documents",)
RUNS = ("documents",)
RECORDS = "records of translated documents"
