"""The one line that adds the toy family, in every process that is started with this folder in PYTHONPATH.

A family of the package has this line in the table `EXPERIMENTS` itself.
"""

from fastweights.experiments import EXPERIMENTS

EXPERIMENTS["toy"] = "toy_family"
