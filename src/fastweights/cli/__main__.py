"""`python -m fastweights.cli`."""

from fastweights.cli.program import main

main()
