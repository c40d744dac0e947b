"""`fastweights list`."""

from types import ModuleType


def list_components() -> None:
    """List feature maps, update rules and normalisations with their equations in the paper, and what can be trained."""
    from fastweights.experiments.families import family_modules
    from fastweights.reporting import catalogue
    from fastweights.reporting.terminal import print_table

    print_table("Feature maps", catalogue.COLUMNS, catalogue.feature_map_rows())
    print_table("Update rules", (*catalogue.COLUMNS, "runs"), catalogue.update_rule_rows())
    print_table("Normalisations", catalogue.COLUMNS, catalogue.normalisation_rows())
    presets = [(size, models) for module in family_modules("presets") for size, models in by_size(module)]
    print_table("Presets of `fastweights train`, SIZE-MODEL", ("size", "models"), presets)


def by_size(module: ModuleType) -> list[tuple[str, str]]:
    """The presets of a family: every size with its models."""
    return [
        (size, ", ".join(name.removeprefix(f"{size}-") for name in module.PRESETS if name.startswith(f"{size}-")))
        for size in getattr(module, "SIZES", ())
    ]
