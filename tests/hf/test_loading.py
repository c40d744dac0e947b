"""Folders that from_pretrained must refuse: damaged, pickled, or of another model."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from fastweights.hf import FastWeightConfig, FastWeightForCausalLM, FastWeightTranslationConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    config = LanguageModelConfig(20, model_dim=8, num_heads=2, num_layers=2, feed_forward_dim=16, cutoffs=())
    FastWeightForCausalLM.of(LanguageModel(config)).save_pretrained(tmp_path)
    return tmp_path


def cut(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-8])


def scribble(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"x" * 1000)


def change_weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return changed


def change_model(**fields: Any) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        config["language_model"] |= fields
        (folder / "config.json").write_text(json.dumps(config))

    return changed


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "the file of weights is corrupted"),
        (scribble, "the file of weights is corrupted"),
        (change_weights(lambda tensors: tensors.pop("model.final_norm.weight", None) or tensors.popitem()), "1 do not"),
        (change_weights(lambda tensors: tensors.update(extra=torch.ones(2))), "1 do not fit: extra"),
        (change_model(model_dim=16), r"those of another model .* do not fit: model.blocks.0"),
        (change_model(num_layers=3), r"10 do not fit: model.blocks.2.attention.output.weight, "),
        (change_model(attention={"name": "softmax"}), "2 do not fit: model.blocks.0.attention.projection.weight"),
        (change_model(vocabulary_size=21), "do not fit: model.embedding"),
        (change_model(widht=3), "unknown field 'widht'"),
    ],
)
def test_what_does_not_fit_is_an_error_and_nothing_is_made_up(
    folder: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(folder)
    with pytest.raises(ValueError, match=message):
        AutoModelForCausalLM.from_pretrained(folder)


def test_a_pickle_is_not_even_looked_at(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    # Whoever unpickles this makes a folder.
    bomb = f"cos\nmkdir\n(S'{folder / 'exploded'}'\ntR."
    (folder / "pytorch_model.bin").write_text(bomb)
    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        AutoModelForCausalLM.from_pretrained(folder)
    assert not (folder / "exploded").exists()


def test_options_of_transformers_still_work(folder: Path) -> None:
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype=torch.bfloat16)
    assert not info["missing_keys"]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    change_model(vocabulary_size=21)(folder)
    assert AutoModelForCausalLM.from_pretrained(folder, ignore_mismatched_sizes=True).config.vocab_size == 21


@pytest.mark.parametrize("config", [FastWeightConfig, FastWeightTranslationConfig])
@pytest.mark.parametrize("name", ["vocab_size", "hidden_size", "num_attention_heads", "num_hidden_layers"])
def test_a_size_that_would_be_ignored_is_refused(config: type, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}: it has no effect by itself.*possible: {config.__name__}\.of"):
        config(**{name: 3})


def test_without_transformers_the_extra_is_named() -> None:
    program = "import sys; sys.modules['transformers'] = None; import fastweights.hf"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "fastweights.hf needs transformers: pip install 'fastweights[hf]'" in done.stderr
