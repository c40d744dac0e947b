"""`fastweights list`."""


def list_components() -> None:
    """List feature maps, update rules and normalisations with their equations in the paper."""
    from fastweights.reporting import catalogue
    from fastweights.reporting.terminal import print_table

    print_table("Feature maps", catalogue.COLUMNS, catalogue.feature_map_rows())
    print_table("Update rules", (*catalogue.COLUMNS, "runs"), catalogue.update_rule_rows())
    print_table("Normalisations", catalogue.COLUMNS, catalogue.normalisation_rows())
