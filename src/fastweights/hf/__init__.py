"""Hugging Face transformers: the one place that knows it. Importing this registers the model with the Auto classes."""

from fastweights.hf.cache import FastWeightCache
from fastweights.hf.causal_lm import FastWeightForCausalLM, register
from fastweights.hf.configuration import FastWeightConfig

__all__ = ["FastWeightCache", "FastWeightConfig", "FastWeightForCausalLM"]

register()
