"""Every module has its test at the same place under tests/, or is named here with the tests that cover it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE, TESTS = ROOT / "src" / "fastweights", ROOT / "tests"

ELSEWHERE = {
    "kernels/features.py": "kernels/native/test_features.py",
    "feature_maps/base.py": "feature_maps/test_every_map.py",
    "feature_maps/identity.py": "feature_maps/test_every_map.py",
    "feature_maps/relu.py": "feature_maps/test_every_map.py",
    "feature_maps/silu.py": "feature_maps/test_every_map.py",
    "feature_maps/softmax.py": "feature_maps/test_every_map.py",
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
    "experiments/contrast/config.py": "experiments/contrast/test_task.py",
    "experiments/contrast/contrast.py": "experiments/contrast/test_claims.py",
    "experiments/contrast/outcomes.py": "experiments/contrast/test_claims.py",
    "experiments/contrast/presets.py": "experiments/contrast/test_task.py",
    "experiments/documents/presets.py": "experiments/documents/test_documents.py",
    "experiments/growth/curves.py": "experiments/growth/test_claims.py",
    "experiments/growth/growth.py": "experiments/growth/test_claims.py",
    "experiments/growth/presets.py": "experiments/growth/test_config.py",
    "experiments/growth/task.py": "experiments/growth/test_stream.py",
    "experiments/look/page.py": "experiments/look/test_looking.py",
    "experiments/look/subject.py": "cli/test_look.py",
    "experiments/memories.py": "experiments/growth/test_config.py",
    "reporting/look_page.py": "experiments/look/test_looking.py",
    "memory/layer_trace.py": "memory/test_recording.py",
    "memory/memory_norms.py": "memory/test_trace.py",
    "memory/native.py": "kernels/native/test_scan.py",
    "kernels/triton/backward.py": "kernels/triton/test_scan.py",
    "kernels/triton/feature_kernels.py": "kernels/triton/test_features.py",
    "kernels/triton/forward.py": "kernels/triton/test_scan.py",
    "kernels/triton/launch.py": "kernels/triton/test_scan.py",
    "memory/rescaling.py": "memory/test_run.py",
    "memory/trace_table.py": "memory/test_recording.py",
    "memory/traced_writes.py": "memory/test_trace.py",
    "memory/write_inputs.py": "memory/test_run.py",
    "hf/served.py": "hf/test_replacements.py",
    "functions/arguments.py": "functions/test_mamba2.py",
    "functions/time_first.py": "functions/test_delta.py",
    "layers/attention/choices.py": "layers/attention/test_fast_weight.py",
    "layers/attention/low_rank.py": "layers/attention/test_mixers.py",
    "layers/attention/memory_attention.py": "layers/attention/test_fast_weight.py",
    "layers/attention/output_gate.py": "layers/attention/test_mixers.py",
    "layers/attention/softmax_cross.py": "layers/test_quadratic_definition.py",
    "layers/decoder_block.py": "layers/test_quadratic_definition.py",
    "layers/exact/overflow.py": "test_extremes.py",
    "models/attention.py": "models/test_language_model.py",
    "models/predictor.py": "evaluation/test_sampling.py",
    "hf/configuration.py": "hf/test_loading.py",
    "hf/strict.py": "hf/test_loading.py",
    "hf/translation_cache.py": "hf/test_seq2seq_lm.py",
    "data/hub.py": "data/text/test_corpus.py",
    "data/text/held_out.py": "cli/test_evaluate.py",
    "data/cache_folder.py": "data/text/test_cache.py",
    "data/translation_download.py": "data/test_translation.py",
    "data/marked.py": "experiments/test_marked_steps.py",
    "experiments/series.py": "experiments/test_contenders.py",
    "experiments/images/config.py": "experiments/images/test_task.py",
    "experiments/images/images.py": "experiments/images/test_claims.py",
    "experiments/images/presets.py": "experiments/images/test_task.py",
    "experiments/questions/babi.py": "experiments/questions/test_claims.py",
    "experiments/questions/config.py": "experiments/questions/test_task.py",
    "experiments/questions/presets.py": "experiments/questions/test_task.py",
    "experiments/recall/config.py": "experiments/recall/test_task.py",
    "experiments/recall/grids.py": "experiments/recall/test_claims.py",
    "experiments/recall/presets.py": "experiments/recall/test_task.py",
    "experiments/recall/rebinding.py": "experiments/recall/test_claims.py",
    "experiments/recall/states.py": "experiments/recall/test_claims.py",
    "reporting/style.py": "reporting/test_report.py",
    "experiments/options.py": "cli/test_reproduce.py",
    "experiments/language_models/config.py": "experiments/language_models/test_task.py",
    "experiments/language_models/evaluate.py": "cli/test_evaluate.py",
    "experiments/language_models/table2.py": "experiments/language_models/test_tables.py",
    "experiments/language_models/table3.py": "experiments/language_models/test_tables.py",
    "experiments/language_models/table4.py": "experiments/language_models/test_tables.py",
    "experiments/language_models/table5.py": "experiments/language_models/test_tables.py",
    "experiments/retrieval/capacity_claims.py": "experiments/retrieval/test_claims.py",
    "experiments/retrieval/overwriting_claims.py": "experiments/retrieval/test_claims.py",
    "experiments/retrieval/series.py": "experiments/retrieval/test_figure2.py",
    "experiments/retrieval/reads/base.py": "experiments/retrieval/test_model.py",
    "experiments/retrieval/reads/fast_weights.py": "experiments/retrieval/test_model.py",
    "experiments/retrieval/reads/softmax.py": "experiments/retrieval/test_model.py",
    "experiments/translation/evaluate.py": "cli/test_translate.py",
    "experiments/translation/export.py": "cli/test_translate.py",
    "playground/page/app.py": "playground/browser/test_write.py",
    "playground/page/capacity_tab.py": "playground/browser/test_capacity.py",
    "playground/page/events.py": "playground/browser/test_write.py",
    "playground/page/memory_columns.py": "playground/browser/test_write.py",
    "playground/page/reading_tab.py": "playground/browser/test_models.py",
    "playground/page/translation_tab.py": "playground/browser/test_models.py",
    "playground/page/write_tab.py": "playground/browser/test_write.py",
    "playground/port.py": "cli/test_play.py",
    "playground/view/translation.py": "playground/browser/test_models.py",
    "cli/demo.py": "cli/test_program.py",
    "cli/doctor.py": "cli/test_program.py",
    "cli/export.py": "cli/test_translate.py",
    "cli/listing.py": "cli/test_program.py",
}

MODULES = [
    path.relative_to(PACKAGE)
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name not in ("__init__.py", "__main__.py")
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
