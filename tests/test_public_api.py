"""The public names are a promise: this list changes only together with the changelog."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import fastweights

PUBLIC = {
    "feature_maps": [
        "DPFP",
        "EluPlusOne",
        "FEATURE_MAPS",
        "Favor",
        "FeatureMap",
        "Identity",
        "RandomFeatureMap",
        "Relu",
        "SiLU",
        "SoftmaxFeatures",
        "Tanh",
    ],
    "update_rules": [
        "Coefficients",
        "DECAYS",
        "Decay",
        "DecayedSumRule",
        "DeltaProductRule",
        "DeltaRule",
        "FastWeightMemoryRule",
        "GatedDeltaRule",
        "GatedDeltaRule2",
        "GatedLinearDecay",
        "KimiDecay",
        "KimiDeltaRule",
        "LightningDecay",
        "LinearRule",
        "Mamba2Decay",
        "NormalisedDeltaRule",
        "NormalisedStep",
        "ProgrammerRule",
        "RetNetDecay",
        "SoftplusDecay",
        "SumRule",
        "UPDATE_RULES",
        "UpdateRule",
    ],
    "memory": [
        "AttentionNormalisation",
        "FastWeightState",
        "CentredL2",
        "L2Normalisation",
        "NORMALISATIONS",
        "NoNormalisation",
        "Normalisation",
        "SumNormalisation",
        "backends",
        "boundaries_of",
        "decay_at_boundaries",
        "fast_weight_scan",
        "last_steps",
        "record",
    ],
    "layers": [
        "Block",
        "FastWeightAttention",
        "FastWeightCrossAttention",
        "FeedForward",
        "GateThenNorm",
        "GatedNorm",
        "KeyValueState",
        "MultiheadFastWeights",
        "OutputGate",
        "ShortConvolution",
        "SinusoidalPositions",
        "SoftmaxAttention",
    ],
    "experiments.load": ["load_run"],
}
NAMES = [(package, name) for package, names in PUBLIC.items() for name in names]


def test_the_list_of_public_names() -> None:
    assert sorted(fastweights.__all__) == sorted(["__version__", *(name for _, name in NAMES)])
    assert set(dir(fastweights)) == set(fastweights.__all__)


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_a_public_name_is_what_its_package_defines(package: str, name: str) -> None:
    home = import_module(f"fastweights.{package}")
    assert getattr(fastweights, name) is getattr(home, name)
    assert name in home.__all__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(str(fastweights.__file__)).read_text(encoding="utf-8"))
    imported = {
        (str(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("fastweights.")
        for alias in node.names
    }
    assert imported == {(f"fastweights.{package}", name) for package, name in NAMES}


def test_an_unknown_name_is_an_attribute_error_that_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'DeltaRul'.*DeltaRule"):
        _ = fastweights.DeltaRul  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_package() -> None:
    assert fastweights.__version__ == version("fastweights")
    root = Path(__file__).parents[1]
    assert f"\nversion: {fastweights.__version__}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")
    assert "\nversion =" not in (root / "pyproject.toml").read_text(encoding="utf-8")


def modules_after(code: str) -> set[str]:
    """Top-level names of everything that a fresh interpreter has imported after `code`."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    return {name.partition(".")[0] for name in output.split()}


def test_importing_the_package_alone_does_not_import_torch() -> None:
    assert modules_after("import fastweights").isdisjoint({"torch", "numpy"})


def test_the_whole_api_imports_neither_plotting_nor_the_command_line_nor_transformers() -> None:
    heavy = {"matplotlib", "rich", "tyro", "jinja2", "transformers", "datasets", "sacrebleu", "tensorboard"}
    assert modules_after("from fastweights import *").isdisjoint(heavy)


def test_the_configurations_of_all_families_import_nothing_that_draws() -> None:
    code = "from fastweights.experiments.families import codec; codec()"
    assert modules_after(code).isdisjoint({"matplotlib", "jinja2", "transformers", "datasets", "sacrebleu"})
