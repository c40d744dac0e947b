"""Instruction counts: what callgrind charges to one library, and arguments as long as the kernels expect."""

import pytest
from benchmarks.instructions import CASES, arguments_of, own_cost

PROFILE = """events: Ir
ob=(1) /lib/other.so
fn=(1) start
10 7
cob=(2) /lib/ours.so
cfn=(2) kernel
calls=1 0
11 500

ob=(2)
fn=(2) kernel
0 100
cob=(1)
cfn=(3) memcpy
calls=3 0
+1 40
+2 60
ob=(1)
fn=(3)
5 40
"""


def test_only_the_library_itself_is_counted() -> None:
    assert own_cost(PROFILE, "/lib/ours.so") == 160
    assert own_cost(PROFILE, "/lib/other.so") == 47


@pytest.mark.parametrize("case", CASES)
def test_arguments_are_as_many_as_the_structures_have(case: str) -> None:
    kernel, arguments = arguments_of(case)
    inputs = 6 + 6 * 4 + 1 + 4 + 1
    lengths = {"scan_forward": inputs + 4 + 3, "scan_backward": inputs + 2 + 4 + 1 + 7 * 4 + 1, "linear": 11}
    assert len(arguments) == lengths[kernel]
