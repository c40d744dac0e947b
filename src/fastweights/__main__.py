"""`python -m fastweights`."""

from fastweights.cli.program import main

main()
