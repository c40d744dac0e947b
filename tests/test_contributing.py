"""The recipes of CONTRIBUTING.md, followed to the letter: their file and their line, in a copy of the package."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)

READ = """
import sys
sys.path[:0] = {paths!r}
import torch
import fastweights
from fastweights.feature_maps import FEATURE_MAPS
from fastweights.update_rules import UPDATE_RULES

assert fastweights.__file__.startswith({paths[0]!r})
layer = fastweights.FastWeightAttention(
    8, 2, feature_map=FEATURE_MAPS["{feature_map}"](), update_rule=UPDATE_RULES["{update_rule}"]()
)
x = torch.randn(1, 5, 8)
layer.backend = "recurrent"
expected = layer(x)[0]
layer.backend = "chunked"
torch.testing.assert_close(layer(x)[0], expected)
"""


@pytest.mark.parametrize(
    ("package", "table", "choice"),
    [("feature_maps", "FEATURE_MAPS", "feature_map"), ("update_rules", "UPDATE_RULES", "update_rule")],
)
def test_a_recipe_works_in_its_place(tmp_path: Path, package: str, table: str, choice: str) -> None:
    [block] = [block for block in BLOCKS if f"fastweights.{package}" in block]
    name = re.findall(r"class (\w+)\(", block)[0]
    copy = shutil.copytree(ROOT / "src" / "fastweights", tmp_path / "fastweights")
    (copy / package / "added.py").write_text(block, encoding="utf-8")
    listed = copy / package / "__init__.py"
    # As the formatter sorts it: the import before those of most other modules.
    imported = f"from fastweights.{package}.added import {name}\n"
    text = listed.read_text(encoding="utf-8").replace("from fastweights", f"{imported}from fastweights", 1)
    listed.write_text(re.sub(rf"({table}: .*?{{\n)", rf'\1    "added": {name},\n', text), encoding="utf-8")
    # Without `site`, whose editable installation would find the package where it is.
    paths = [str(tmp_path), sysconfig.get_path("purelib")]
    names = {"feature_map": "elu", "update_rule": "sum"} | {choice: "added"}
    command = [sys.executable, "-S", "-c", READ.format(paths=paths, **names)]
    subprocess.run(command, check=True, timeout=300)
