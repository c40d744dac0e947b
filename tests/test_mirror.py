"""Every module has its test at the same place under tests/, or is named here with the tests that cover it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE, TESTS = ROOT / "src" / "fastweights", ROOT / "tests"

PACKAGES = ("kernels", "feature_maps", "update_rules", "memory", "layers", "hf")

ELSEWHERE = {
    "kernels/features.py": "kernels/native/test_features.py",
    "feature_maps/base.py": "feature_maps/test_every_map.py",
    "feature_maps/identity.py": "feature_maps/test_every_map.py",
    "feature_maps/relu.py": "feature_maps/test_every_map.py",
    "feature_maps/tanh.py": "feature_maps/test_every_map.py",
    "update_rules/base.py": "update_rules/test_definitions.py",
    "update_rules/decayed_sum.py": "update_rules/test_definitions.py",
    "update_rules/delta_product.py": "update_rules/test_definitions.py",
    "update_rules/delta_rule.py": "update_rules/test_definitions.py",
    "update_rules/fast_weight_memory.py": "update_rules/test_definitions.py",
    "update_rules/gated_delta.py": "update_rules/test_definitions.py",
    "update_rules/gated_delta2.py": "update_rules/test_definitions.py",
    "update_rules/kimi_delta.py": "update_rules/test_definitions.py",
    "update_rules/normalised_delta.py": "update_rules/test_definitions.py",
    "update_rules/programmer.py": "update_rules/test_definitions.py",
    "update_rules/sum_rule.py": "update_rules/test_definitions.py",
    "memory/backend.py": "memory/test_choose.py",
    "memory/chunk_by_channel.py": "memory/test_channels.py",
    "memory/chunk_by_head.py": "memory/test_chunked.py",
    "memory/native.py": "kernels/native/test_scan.py",
    "memory/rescaling.py": "memory/test_run.py",
    "memory/write_inputs.py": "memory/test_run.py",
    "layers/attention/low_rank.py": "layers/attention/test_mixers.py",
    "layers/attention/memory_attention.py": "layers/attention/test_fast_weight.py",
    "layers/attention/output_gate.py": "layers/attention/test_mixers.py",
    "layers/attention/softmax_cross.py": "layers/test_quadratic_definition.py",
    "layers/decoder_block.py": "layers/test_quadratic_definition.py",
    "layers/exact/overflow.py": "test_extremes.py",
    "hf/configuration.py": "hf/test_loading.py",
    "hf/strict.py": "hf/test_loading.py",
    "hf/translation_cache.py": "hf/test_seq2seq_lm.py",
}

MODULES = [
    path.relative_to(PACKAGE)
    for package in PACKAGES
    for path in sorted((PACKAGE / package).rglob("*.py"))
    if path.name != "__init__.py"
]


def mirrored(module: Path) -> Path:
    return TESTS / module.with_name(f"test_{module.name}")


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_has_its_test(module: Path) -> None:
    elsewhere = ELSEWHERE.get(str(module))
    assert mirrored(module).exists() != (elsewhere is not None), f"{module}: one test at its place, or one named here"
    assert elsewhere is None or (TESTS / elsewhere).exists()


def test_only_modules_are_named() -> None:
    assert ELSEWHERE.keys() <= {str(module) for module in MODULES}
