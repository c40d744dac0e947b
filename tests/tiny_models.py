"""A tiny random model of every architecture that `accelerate` knows, with parameters large enough to matter."""

from importlib import import_module
from typing import Any

import torch

LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 6}
COMMON = {"vocab_size": 60, "hidden_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
ATTENTION = {"num_attention_heads": 2, "num_key_value_heads": 1}
HYBRID = {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
SHARED = {"shared_expert_intermediate_size": 16}
LATENT = {"num_attention_heads": 2, "num_key_value_heads": 2, "kv_lora_rank": 8, "qk_rope_head_dim": 4}
LATENT |= {"v_head_dim": 8, "qk_nope_head_dim": 8, "intermediate_size": 32}
KIMI = {"linear_head_dim": 8, "linear_num_heads": 3}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1, "topk_group": 1}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_chunk_size": 16}

OPTIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3_next": (
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        HYBRID | ATTENTION | LINEAR | EXPERTS | SHARED | {"head_dim": 16, "intermediate_size": 32},
    ),
    "qwen3_5": (
        "Qwen3_5ForCausalLM",
        "Qwen3_5TextConfig",
        HYBRID | ATTENTION | LINEAR | {"head_dim": 16, "intermediate_size": 32},
    ),
    "qwen3_5_moe": (
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeTextConfig",
        HYBRID | ATTENTION | LINEAR | EXPERTS | SHARED | {"head_dim": 16},
    ),
    "qwen4_exp": (
        "Qwen4ExpForCausalLM",
        "Qwen4ExpTextConfig",
        HYBRID
        | ATTENTION
        | LINEAR
        | EXPERTS
        | SHARED
        | {"head_dim": 16, "hc_count": 2, "hc_lowrank": 8, "ple_layer_ids": []}
        | {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 64}
        | {"indexer_compress_ratio": 4},
    ),
    "olmo_hybrid": (
        "OlmoHybridForCausalLM",
        "OlmoHybridConfig",
        HYBRID | ATTENTION | LINEAR | {"intermediate_size": 32},
    ),
    "kimi_linear": (
        "KimiLinearForCausalLM",
        "KimiLinearConfig",
        HYBRID | LATENT | KIMI | LOCAL,
    ),
    "glm5_next": (
        "Glm5NextForConditionalGeneration",
        "Glm5NextConfig",
        {
            "text_config": COMMON
            | HYBRID
            | LATENT
            | KIMI
            | LOCAL
            | {"n_routed_experts": 4, "q_lora_rank": 8, "index_head_dim": 8, "index_n_heads": 2, "index_topk": 64}
            | {"hc_mult": 2, "qk_rope_head_dim": 0},
            "vision_config": {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 16}
            | {"out_hidden_size": 32, "projection_intermediate_size": 16},
        },
    ),
    "bailing_hybrid": (
        "BailingHybridForCausalLM",
        "BailingHybridConfig",
        HYBRID | LATENT | LOCAL | {"head_dim": 8, "num_mtp_layers": 0},
    ),
    "mamba2": (
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {"num_hidden_layers": 2, "num_heads": 8, "head_dim": 8, "state_size": 16, "n_groups": 2, "chunk_size": 16},
    ),
    "bamba": (
        "BambaForCausalLM",
        "BambaConfig",
        MAMBA | ATTENTION | {"num_hidden_layers": 2, "attn_layer_indices": [1], "intermediate_size": 32},
    ),
    "falcon_h1": (
        "FalconH1ForCausalLM",
        "FalconH1Config",
        MAMBA | ATTENTION | {"num_hidden_layers": 2, "mamba_d_ssm": 64, "intermediate_size": 32},
    ),
    "granitemoehybrid": (
        "GraniteMoeHybridForCausalLM",
        "GraniteMoeHybridConfig",
        MAMBA
        | ATTENTION
        | {"num_hidden_layers": 2, "layer_types": ["mamba", "attention"], "intermediate_size": 32}
        | {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 16},
    ),
    "nemotron_h": (
        "NemotronHForCausalLM",
        "NemotronHConfig",
        ATTENTION
        | {"layers_block_type": ["mamba", "attention", "mlp"], "head_dim": 16, "intermediate_size": 32}
        | {"ssm_state_size": 16, "mamba_num_heads": 8, "mamba_head_dim": 8, "n_groups": 2, "chunk_size": 16},
    ),
    "zamba2": (
        "Zamba2ForCausalLM",
        "Zamba2Config",
        {"num_hidden_layers": 2, "layers_block_type": ["mamba", "hybrid"], "num_attention_heads": 2}
        | {"mamba_d_state": 16, "n_mamba_heads": 8, "mamba_ngroups": 2, "chunk_size": 16, "intermediate_size": 32},
    ),
}


def tiny_model(architecture: str, **changes: Any) -> Any:
    """A model whose rule decides on its logits."""
    model_class, config_class, options = OPTIONS[architecture]
    package = f"transformers.models.{architecture}"
    config = getattr(import_module(f"{package}.configuration_{architecture}"), config_class)
    model = getattr(import_module(f"{package}.modeling_{architecture}"), model_class)
    torch.manual_seed(0)
    built = model(config(**COMMON | options | changes)).eval()
    for parameter in built.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    return built
