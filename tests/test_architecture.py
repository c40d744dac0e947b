"""Imports point one way, and nothing in the project can run code that came with somebody's data."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "fastweights"

ORDER = (
    ("shapes",),
    ("config",),
    ("files",),
    ("kernels",),
    ("feature_maps",),
    ("update_rules",),
    ("memory",),
    ("functions",),
    ("layers",),
    ("models",),
    ("hf",),
    ("data",),
    ("runs",),
    ("training",),
    ("evaluation",),
    ("reporting",),
    ("experiments",),
    ("playground",),
    ("cli",),
    ("__main__",),
)
"""A component may use itself and what stands before it."""

RANK = {component: rank for rank, components in enumerate(ORDER) for component in components}
USERS_OF_HF = {"hf", "evaluation", "experiments", "cli"}

MODULES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted(
    path for folder in ("src", "tests", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")
)

BANNED_MODULES = {"pickle", "cPickle", "shelve", "marshal", "dill", "cloudpickle", "joblib"}
BANNED_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "torch.load",
    "yaml.load",
    "yaml.unsafe_load",
    "os.system",
    "os.popen",
}
BANNED_KEYWORDS = {"shell": True, "allow_pickle": True, "trust_remote_code": True, "weights_only": False}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def component_of(path: Path) -> str:
    """The part of the package a file belongs to: the name that stands in ORDER."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_modules(tree: ast.AST, path: Path) -> Iterator[str]:
    """Absolute names of everything imported, inside functions and under TYPE_CHECKING too."""
    package = ("fastweights", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*start, *((node.module,) if node.module else ())))
            yield from (f"{base}.{alias.name}" for alias in node.names)


def violations(source: str, path: Path) -> list[str]:
    """Every import of a component that the file's own component must not use."""
    own = component_of(path)
    found = []
    for module in imported_modules(ast.parse(source), path):
        top, _, rest = module.partition(".")
        used = rest.partition(".")[0]
        if top != "fastweights" or used == "__version__":
            continue
        if used not in RANK:
            found.append(f"imports {module}: name the component it comes from")
        elif RANK[used] > RANK[own]:
            found.append(f"imports {module}, which stands right of {own}")
        elif used == "hf" and own not in USERS_OF_HF:
            found.append(f"imports {module}, which only {', '.join(sorted(USERS_OF_HF))} may use")
    return found


def test_every_component_has_its_place() -> None:
    components = {component_of(path) for path in MODULES} - {"__init__"}
    assert components <= RANK.keys(), f"no place in ORDER: {sorted(components - RANK.keys())}"


@pytest.mark.parametrize("path", [path for path in MODULES if component_of(path) != "__init__"], ids=relative)
def test_imports_point_one_way(path: Path) -> None:
    assert violations(path.read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("from fastweights.memory import fast_weight_scan", "feature_maps/x.py"),
        ("from fastweights.layers.block import Block", "memory/x.py"),
        ("import fastweights.cli.program", "experiments/x.py"),
        ("def f():\n    from fastweights.training import loop", "layers/x.py"),
        ("from ..memory import scan", "update_rules/x.py"),
        ("from .. import memory", "update_rules/x.py"),
        ("from fastweights import DPFP", "layers/x.py"),
        ("from fastweights.hf import config", "reporting/x.py"),
        ("from fastweights.experiments.records import load", "reporting/x.py"),
        ("from fastweights.training.run import Run", "runs/x.py"),
        ("from fastweights.runs.record import Record", "data/x.py"),
    ],
)
def test_a_wrong_import_is_found(source: str, file: str) -> None:
    assert len(violations(source, PACKAGE / file)) == 1


def dangers(source: str) -> list[str]:
    """Every call or import that could run a stranger's code."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.partition(".")[0] in BANNED_MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names} & BANNED_CALLS
            found += sorted(names)
            found += [node.module] if node.module and node.module.partition(".")[0] in BANNED_MODULES else []
        elif isinstance(node, ast.Call):
            found += [called] if (called := ast.unparse(node.func)) in BANNED_CALLS else []
            found += [str(keyword.arg) for keyword in node.keywords if is_banned(keyword)]
    return found


def is_banned(keyword: ast.keyword) -> bool:
    if keyword.arg not in BANNED_KEYWORDS:
        return False
    # What is not a literal could be anything.
    return not isinstance(keyword.value, ast.Constant) or keyword.value.value == BANNED_KEYWORDS[keyword.arg]


@pytest.mark.parametrize("path", SCRIPTS, ids=relative)
def test_nothing_runs_a_strangers_code(path: Path) -> None:
    assert dangers(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import torch\ntorch.load('x')",
        "from torch import load",
        "eval('1')",
        "exec('1')",
        "import yaml\nyaml.load('x')",
        "run('ls', shell=True)",
        "run('ls', shell=flag)",
        "load('x', trust_remote_code=True)",
        "load('x', weights_only=False)",
        "np.load('x', allow_pickle=True)",
    ],
)
def test_a_danger_is_found(source: str) -> None:
    assert len(dangers(source)) == 1


@pytest.mark.parametrize(
    "source", ["model.eval()", "run('ls', shell=False)", "torch.compile(model)", "re.compile('x')"]
)
def test_a_harmless_call_is_not_taken_for_a_danger(source: str) -> None:
    assert dangers(source) == []
