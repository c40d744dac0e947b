"""What there should be one of: a training loop, a record loader, a parser of --set, a writer, a lock, each name."""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "fastweights"
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}

MOST_EDGES = 24
"""Imports from experiments to reporting: one for each module that draws or makes a table, through one door."""
BY_CONVENTION = {"ARGUMENTS", "CLAIMS", "CONFIG", "CONSTANTS", "MODELS", "PRESETS", "REGISTRIES", "RUNS", "SEEDS"}
BY_CONVENTION |= {"LATER_WORK", "REVIEW", "SHOWS", "SIZES", "TABLE", "TEXT", "TITLE"}
"""Names that every family of experiments, or every figure and table, may have."""


def calls(source: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))


def methods(source: str, *names: str) -> Iterator[tuple[str, ast.Call]]:
    """The receiver of every call of a method with one of these names, and the call."""
    for call in calls(source):
        if isinstance(call.func, ast.Attribute) and call.func.attr in names:
            yield ast.unparse(call.func.value), call


def optimiser_steps(source: str) -> int:
    """Updates of weights; the steps of an update rule have arguments."""
    return sum(not call.args and not call.keywords for _, call in methods(source, "step"))


def record_loaders(source: str) -> int:
    """Functions that read records, and calls that read a whole folder of them."""
    called = [ast.unparse(call.func).rpartition(".")[2] for call in calls(source)]
    return called.count("read_record") + called.count("read_records")


def set_parsers(source: str) -> int:
    """Changes of a field by its path, and the complaint about one that is no change."""
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    complaints = sum("expected FIELD=VALUE" in text for text in texts if isinstance(text, str))
    return complaints + sum(1 for _ in methods(source, "override"))


def atomic_writes(source: str) -> int:
    """Files or folders that get another name; the one file system of the package may be asked to do it."""
    moved = [receiver for receiver, _ in methods(source, "rename", "move") if "file_system" not in receiver.lower()]
    # A text is replaced in a text with two arguments, a file by a file with one.
    replaced = [receiver for receiver, call in methods(source, "replace") if len(call.args) == 1 or receiver == "os"]
    return len(moved) + len(replaced)


def locks(source: str) -> int:
    """Imports of what can lock a file."""
    imported = [
        name
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    ]
    return sum(name.partition(".")[0] in ("filelock", "fcntl", "msvcrt") for name in imported)


def signal_handlers(source: str) -> int:
    return sum(receiver == "signal" for receiver, _ in methods(source, "signal"))


@pytest.mark.parametrize(
    ("count", "places"),
    [
        (optimiser_steps, {"training/loop.py"}),
        (record_loaders, {"runs/record.py", "experiments/records.py"}),
        (set_parsers, {"config.py"}),
        # A state file is the user's own: its writer stands with its format.
        (atomic_writes, {"files.py"}),
        (locks, {"files.py"}),
        # A worker ignores Ctrl-C, which is for the sweep.
        (signal_handlers, {"runs/signals.py", "runs/sweep/worker.py"}),
    ],
)
def test_each_has_its_one_place(count: Callable[[str], int], places: set[str]) -> None:
    assert {path for path, source in SOURCES.items() if count(source)} == places


@pytest.mark.parametrize(
    ("count", "source"),
    [
        (optimiser_steps, "self.optimiser.step()"),
        (record_loaders, "from fastweights.runs import record\nrecord.read_records(path)"),
        (set_parsers, "codec.override(value, path, text)"),
        (set_parsers, "raise ValueError(f'--set: expected FIELD=VALUE, got {x}')"),
        (atomic_writes, "os.replace(partial, path)"),
        (atomic_writes, "partial.replace(path)"),
        (atomic_writes, "partial.rename(path)"),
        (atomic_writes, "shutil.move(partial, path)"),
        (locks, "import fcntl"),
        (locks, "def f():\n    from filelock import FileLock"),
        (signal_handlers, "signal.signal(signal.SIGTERM, stop)"),
    ],
)
def test_a_second_place_would_be_found(count: Callable[[str], int], source: str) -> None:
    assert count(source) == 1


@pytest.mark.parametrize(
    ("count", "source"),
    [
        (optimiser_steps, "weights = rule.step(weights, key, value, strength)"),
        (set_parsers, "@override\ndef open(self): ..."),
        (atomic_writes, "text.replace('a', 'b')\nreplace(run, training=training)\nfile_system.rename(old, new)"),
    ],
)
def test_what_only_looks_like_one_is_not_counted(count: Callable[[str], int], source: str) -> None:
    assert count(source) == 0


def imports_of_reporting(source: str) -> list[str]:
    """The modules of reporting that a source imports, once for each statement."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module == "fastweights.reporting":
                names = [alias.name for alias in node.names]
                modules = [name for name in names if f"reporting/{name}.py" in SOURCES]
                found += [f"fastweights.reporting.{name}" for name in modules]
                found += ["fastweights.reporting"] * (len(modules) < len(names))
            elif node.module.startswith("fastweights.reporting."):
                found.append(node.module)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("fastweights.reporting")]
    return found


def test_few_imports_lead_from_experiments_to_reporting() -> None:
    statements = [
        (path, module)
        for path, source in SOURCES.items()
        if path.startswith("experiments/")
        for module in imports_of_reporting(source)
    ]
    shown = "\n".join(f"{path} imports {module}" for path, module in sorted(statements))
    assert len(set(statements)) <= MOST_EDGES, f"{len(set(statements))} pairs of modules:\n{shown}"
    assert len(statements) <= MOST_EDGES, f"{len(statements)} import statements:\n{shown}"


def test_every_form_of_import_is_counted() -> None:
    source = "import fastweights.reporting.style\nfrom fastweights.reporting import report, terminal, Table, draw\n"
    assert len(imports_of_reporting(source + "from fastweights.reporting.report import Table, Section")) == 5


def definitions(source: str) -> tuple[list[str], list[str]]:
    """The classes of a module, and its registries: dictionaries with a name in capitals."""
    tree = ast.parse(source)
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    registries = []
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict | ast.DictComp):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            registries += [target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper()]
    return classes, registries


def test_no_class_and_no_registry_has_the_name_of_another() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, source in SOURCES.items():
        for names in definitions(source):
            for name in set(names) - BY_CONVENTION:
                places[name].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_classes_and_registries_are_seen() -> None:
    source = "TABLE: dict[str, int] = {}\nOTHER = {n: n for n in ()}\nPAIR = (1, 2)\nclass A:\n    class B: ...\n"
    assert definitions(source) == (["A", "B"], ["TABLE", "OTHER"])
