"""The command line: one module per verb. Nothing heavy is imported before a verb runs."""

from fastweights.cli.program import COMMANDS, main

__all__ = ["COMMANDS", "main"]
