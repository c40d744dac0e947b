"""A trained language model as a Hugging Face folder, as `fastweights export` writes it."""

import json
from pathlib import Path

from fastweights.data.text.tokenizers import BytePairs, Vocabulary
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.files import Json
from fastweights.runs.checkpoint import Checkpoint


def export(run: Path, folder: Path, which: str = "best") -> None:
    """Write config.json, weights, generation_config.json, the tokenizer's files and a model card."""
    from fastweights.hf import FastWeightForCausalLM
    from fastweights.hf.vocabulary_tokenizer import language_tokenizer

    model, task, checkpoint = load_language_model(run, which)
    vocabulary = vocabulary_of(run)
    tokenizer = language_tokenizer(*_parts(vocabulary), length=task.segment_length)
    # No end token: a line's end is not the end of a text, and generation goes on.
    wrapped = FastWeightForCausalLM.of(
        model.eval(), bos_token_id=tokenizer.bos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    wrapped.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(_card(run, vocabulary, task, checkpoint), encoding="utf-8")


def _parts(vocabulary: Vocabulary) -> tuple[str, tuple[str, ...], str]:
    tokenizer = vocabulary.tokenizer
    plain = json.loads(vocabulary.to_json())
    return str(plain["splitter"]), vocabulary.symbols, tokenizer.model if isinstance(tokenizer, BytePairs) else ""


def _card(run: Path, vocabulary: Vocabulary, task: LanguageModellingConfig, checkpoint: Checkpoint) -> str:
    """The model card: what the model is, how to load it, and what was measured."""
    unit, model = vocabulary.tokenizer.unit, task.model
    measured = [
        f"| {one['split']} | {one['context']} | {one['step']} | {one['perplexity']:.2f} |" for one in _evaluations(run)
    ]
    if not measured:
        measured = ["| not measured; `fastweights evaluate` does it | | | |"]
    memory = (
        "It was trained with its memory carried from one part of the text to the next."
        if task.carry_state
        else f"Beyond {task.segment_length} {unit}s it was not trained and may fall apart."
    )
    return f"""---
library_name: transformers
pipeline_tag: text-generation
tags: [fastweights]
---

# A language model with fast weights

{model.num_layers} layers of width {model.model_dim} with {model.num_heads} heads, a vocabulary of {len(vocabulary)}
{unit}s, {checkpoint.step} steps of training on texts of {task.segment_length} {unit}s. {memory}

```python
import fastweights.hf  # tells transformers about the model
from transformers import pipeline

write = pipeline("text-generation", model="this folder")
print(write("The", max_new_tokens=20)[0]["generated_text"])
```

| split | context | step | perplexity per {unit} |
|---|---|---|---|
{chr(10).join(measured)}
"""


def _evaluations(run: Path) -> list[Json]:
    """The newest result of each kind that `fastweights evaluate` kept."""
    file = run / "evaluations.jsonl"
    if not file.exists():
        return []
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return list({(one["split"], one["context"], one["step"]): one for one in lines}.values())
