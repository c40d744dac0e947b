"""How the tests check the annotations of the package as it runs (`--jaxtyping-packages` in pyproject.toml)."""

from beartype import BeartypeConf, beartype

# As for mypy, an int will do where a float is asked for.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
