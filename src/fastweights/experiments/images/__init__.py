"""Memories of high-dimensional data: pictures stored and overwritten, and labels of pictures that change."""

SHOWS = ("images",)
RUNS = ("images",)
RECORDS = "records with pictures"
