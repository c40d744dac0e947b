"""The rules of well-known layers under the names and signatures of flash-linear-attention and mamba-ssm.

All of them are the one operator, so they run where it runs: on a CPU without Triton, with gradients to every argument.
Layouts are those of the originals, `b t h ·`, and so are the states.
"""

from fastweights.functions.delta import chunk_delta_rule, chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
from fastweights.functions.kimi import chunk_kda, fused_recurrent_kda
from fastweights.functions.mamba2 import mamba_chunk_scan_combined, selective_state_update

__all__ = [
    "chunk_delta_rule",
    "chunk_gated_delta_rule",
    "chunk_kda",
    "fused_recurrent_gated_delta_rule",
    "fused_recurrent_kda",
    "mamba_chunk_scan_combined",
    "selective_state_update",
]
