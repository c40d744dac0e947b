"""Every example runs to its end and says what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "add_a_gated_rule": ["alpha.log_rate", "native", "chunked", "recurrent", "step  60"],
    "add_a_rule": ["native", "chunked", "recurrent"],
    "stream_a_sequence": ["in pieces", "after a rest", "1000 steps seen"],
    "use_the_layer": ["SumRule", "DeltaRule", "right"],
}


def test_all_examples_are_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(words in done.stdout for words in SAYS[name])
    if name == "use_the_layer":
        shares = [int(line.split("answers")[1].split("%")[0]) for line in done.stdout.splitlines()]
        # Only overwriting gives the newest answer.
        assert shares[0] < 85 < 95 < shares[1]
