"""Hugging Face transformers: the one place that knows it. Importing this registers the models with the Auto classes."""

from importlib.util import find_spec

if find_spec("transformers") is None:
    raise ModuleNotFoundError("fastweights.hf needs transformers: pip install 'fastweights[hf]'", name="transformers")

from fastweights.hf import causal_lm, seq2seq_lm, vocabulary_tokenizer
from fastweights.hf.acceleration import Acceleration, accelerate
from fastweights.hf.cache import FastWeightCache
from fastweights.hf.causal_lm import FastWeightForCausalLM
from fastweights.hf.configuration import FastWeightConfig, FastWeightTranslationConfig
from fastweights.hf.seq2seq_lm import FastWeightForSeq2SeqLM
from fastweights.hf.translation_cache import TranslationCache
from fastweights.hf.vocabulary_tokenizer import FastWeightTokenizer

__all__ = [
    "Acceleration",
    "FastWeightCache",
    "FastWeightConfig",
    "FastWeightForCausalLM",
    "FastWeightForSeq2SeqLM",
    "FastWeightTokenizer",
    "FastWeightTranslationConfig",
    "TranslationCache",
    "accelerate",
]

causal_lm.register()
seq2seq_lm.register()
vocabulary_tokenizer.register()
