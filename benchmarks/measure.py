"""One measurement in a process of its own: `python -m benchmarks.measure full "decoding"` prints its JSON."""

import json
import os
import sys

from benchmarks.plan import find


def main() -> None:
    """Measure what the arguments name; everything but the result goes to standard error."""
    plan, name = sys.argv[1:]
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    result = find(plan, name).run()
    with output:
        output.write(json.dumps(result, allow_nan=False))


if __name__ == "__main__":
    main()
