"""How the tests check the annotations of the package as it runs."""

from beartype import BeartypeConf, beartype

# As for mypy, an int will do where a float is asked for.
LIKE_MYPY = BeartypeConf(is_pep484_tower=True)
checked = beartype(conf=LIKE_MYPY)
"""Of packages with shapes of tensors: `--jaxtyping-packages` in pyproject.toml."""

WITHOUT_SHAPES = ("config", "evaluation", "files", "runs", "training")
"""Packages that are checked without shapes, which takes a tenth of the time."""
