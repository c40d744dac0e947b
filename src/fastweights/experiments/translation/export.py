"""A trained translator as a Hugging Face folder, as `fastweights export` writes it."""

from pathlib import Path

from fastweights.experiments.translation.saved import load_translator, tokeniser_of


def export(run: Path, folder: Path, which: str = "best") -> None:
    """Write config.json, weights, generation_config.json with the search of the table, and the tokenizer's files."""
    from fastweights.hf import FastWeightForSeq2SeqLM
    from fastweights.hf.tokenizer import fast_tokenizer

    model, task, _ = load_translator(run, which)
    wrapped = FastWeightForSeq2SeqLM.of(model, beams=task.beams, length_penalty=task.length_penalty)
    wrapped.save_pretrained(folder)
    fast_tokenizer(tokeniser_of(run).model).save_pretrained(folder)
