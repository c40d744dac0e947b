"""Transformers whose attention is a fast-weight memory: a matrix W that is written, read and overwritten.

The public API, and nothing but re-exports. Names are imported when first used, so that `import fastweights`
and the command line's help do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastweights.experiments.load import load_run
    from fastweights.feature_maps import (
        DPFP,
        FEATURE_MAPS,
        EluPlusOne,
        Favor,
        FeatureMap,
        Identity,
        RandomFeatureMap,
        Relu,
        SiLU,
        SoftmaxFeatures,
        Tanh,
    )
    from fastweights.layers import (
        Block,
        FastWeightAttention,
        FastWeightCrossAttention,
        FeedForward,
        GatedNorm,
        GateThenNorm,
        KeyValueState,
        MultiheadFastWeights,
        OutputGate,
        ShortConvolution,
        SinusoidalPositions,
        SoftmaxAttention,
    )
    from fastweights.memory import (
        NORMALISATIONS,
        AttentionNormalisation,
        CentredL2,
        FastWeightState,
        L2Normalisation,
        NoNormalisation,
        Normalisation,
        SumNormalisation,
        backends,
        boundaries_of,
        decay_at_boundaries,
        fast_weight_scan,
        last_steps,
        record,
    )
    from fastweights.update_rules import (
        DECAYS,
        UPDATE_RULES,
        Coefficients,
        Decay,
        DecayedSumRule,
        DeltaProductRule,
        DeltaRule,
        FastWeightMemoryRule,
        GatedDeltaRule,
        GatedDeltaRule2,
        GatedLinearDecay,
        KimiDecay,
        KimiDeltaRule,
        LightningDecay,
        LinearRule,
        Mamba2Decay,
        NormalisedDeltaRule,
        NormalisedStep,
        ProgrammerRule,
        RetNetDecay,
        SoftplusDecay,
        SumRule,
        UpdateRule,
    )

__version__ = "0.1.0"

__all__ = [
    "DECAYS",
    "DPFP",
    "FEATURE_MAPS",
    "NORMALISATIONS",
    "UPDATE_RULES",
    "AttentionNormalisation",
    "Block",
    "CentredL2",
    "Coefficients",
    "Decay",
    "DecayedSumRule",
    "DeltaProductRule",
    "DeltaRule",
    "EluPlusOne",
    "FastWeightAttention",
    "FastWeightCrossAttention",
    "FastWeightMemoryRule",
    "FastWeightState",
    "Favor",
    "FeatureMap",
    "FeedForward",
    "GateThenNorm",
    "GatedDeltaRule",
    "GatedDeltaRule2",
    "GatedLinearDecay",
    "GatedNorm",
    "Identity",
    "KeyValueState",
    "KimiDecay",
    "KimiDeltaRule",
    "L2Normalisation",
    "LightningDecay",
    "LinearRule",
    "Mamba2Decay",
    "MultiheadFastWeights",
    "NoNormalisation",
    "Normalisation",
    "NormalisedDeltaRule",
    "NormalisedStep",
    "OutputGate",
    "ProgrammerRule",
    "RandomFeatureMap",
    "Relu",
    "RetNetDecay",
    "ShortConvolution",
    "SiLU",
    "SinusoidalPositions",
    "SoftmaxAttention",
    "SoftmaxFeatures",
    "SoftplusDecay",
    "SumNormalisation",
    "SumRule",
    "Tanh",
    "UpdateRule",
    "__version__",
    "backends",
    "boundaries_of",
    "decay_at_boundaries",
    "fast_weight_scan",
    "last_steps",
    "load_run",
    "record",
]

_PACKAGES = ("feature_maps", "update_rules", "memory", "layers", "experiments.load")


# Hidden from type checkers, which would otherwise accept every misspelled name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in __all__:
            for package in _PACKAGES:
                module = import_module(f"{__name__}.{package}")
                if name in module.__all__:
                    globals()[name] = found = getattr(module, name)
                    return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
