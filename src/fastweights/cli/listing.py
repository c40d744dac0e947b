"""`fastweights list`."""

from types import ModuleType

from fastweights.experiments import split_preset


def list_components() -> None:
    """List feature maps, update rules and normalisations with their equations in the paper, and what can be trained."""
    from fastweights.experiments.families import family_modules
    from fastweights.reporting import catalogue, print_entries

    print_entries("Feature maps", catalogue.feature_maps())
    print_entries("Update rules", catalogue.update_rules())
    print_entries("Normalisations", catalogue.normalisations())
    presets = [entry for module in family_modules("presets") for entry in preset_entries(module)]
    print_entries("Presets of `fastweights train --preset SIZE-MODEL`", presets)


def preset_entries(module: ModuleType) -> list[tuple[str, str]]:
    """The presets of a family: sizes that have the same models, and these models."""
    sizes: dict[str, list[str]] = {}
    known = getattr(module, "SIZES", ())
    presets = [split_preset(name, known) for name in module.PRESETS] if known else []
    for size in known:
        models = [model for found, model in presets if found == size]
        sizes.setdefault(", ".join(models), []).append(size)
    return [(" or ".join(names), models) for models, names in sizes.items()]
