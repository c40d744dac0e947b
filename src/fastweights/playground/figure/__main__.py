"""`python -m fastweights.playground.figure FILE` writes the script of the figure."""

import sys
from pathlib import Path

from fastweights.files import write_whole
from fastweights.playground.figure.script import figure_script

write_whole(Path(sys.argv[1]), figure_script())
