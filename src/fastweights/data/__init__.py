"""Data: what models are trained and tested on. A new task is one file here."""
