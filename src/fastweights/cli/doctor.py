"""`fastweights doctor`."""


def doctor() -> None:
    """Report what is installed, what the machine offers, which backends can run and which one is taken."""
    from fastweights.reporting import print_table
    from fastweights.runs import environment

    here = environment.Environment.here()
    print_table("Versions", ("package", "version"), environment.version_rows(here))
    print_table("Machine", ("what", "found"), environment.machine_rows(here))
    print_table("Backends", ("backend", "status", "note"), environment.backend_rows())
