"""From a trained run to a Hugging Face folder and back to text, as the documentation shows it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fastweights import load_run
from fastweights.cli.export import export
from fastweights.cli.train import TrainOptions, train
from fastweights.hf import FastWeightForCausalLM

DOCUMENT = Path(__file__).parents[2] / "docs" / "language_models.md"
SIZE = ("model_dim=16", "num_heads=2", "num_layers=1", "feed_forward_dim=16")
LENGTH = ("steps=4", "batch_size=2", "segment_length=8", "evaluate_every=2")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    text, path = tmp_path / "book.txt", tmp_path / "runs" / "dpfp"
    text.write_text("The history of the cat is the history of the mat\n" * 40, encoding="utf-8")
    changes = (*(f"model.{change}" for change in SIZE), *(f"training.{change}" for change in LENGTH))
    options = TrainOptions(
        preset="cpu-dpfp-delta",
        data=str(text),
        out=path,
        set=changes,
        cache=tmp_path / "cache",
        device="cpu",
        results=tmp_path / "results",
    )
    train(options)
    return path


def test_what_the_documentation_shows_runs(run: Path, tmp_path: Path) -> None:
    (code,) = re.findall(r"```py\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    export(run, tmp_path / "dpfp-hf")
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The history of")
    tokens = torch.tensor([[1, 2, 3]])
    own, _, _ = load_run(run)
    hidden, _ = own(tokens)
    loaded = FastWeightForCausalLM.from_pretrained(tmp_path / "dpfp-hf")
    assert torch.equal(loaded(tokens).logits, own.log_probabilities(hidden))
