"""An exported language model: in transformers and lm-eval it is the model that was trained."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

import fastweights.hf  # noqa: F401  it tells transformers about the model
from fastweights.cli.evaluate import evaluate
from fastweights.cli.export import export
from fastweights.cli.train import train
from fastweights.data.text.corpus import open_corpus
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.experiments.options import EvaluateOptions
from tiny_language_model import train_options, write_book

TOKENS = ["words", *(pytest.param(name, marks=pytest.mark.slow) for name in ("characters", "bpe"))]


@pytest.fixture(scope="module", params=TOKENS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained run that was exported to `hf` beside it."""
    folder = tmp_path_factory.mktemp(request.param)
    train(train_options(write_book(folder), tokens=request.param))
    options = EvaluateOptions(run=folder / "run", cache=folder / "cache", context="segments", split="test")
    evaluate(options)
    export(folder / "run", folder / "hf")
    return folder / "run"


def test_logits_and_tokens_are_those_of_the_run(run: Path) -> None:
    model, tokenizer = (kind.from_pretrained(run.parent / "hf") for kind in (AutoModelForCausalLM, AutoTokenizer))
    ours, vocabulary = load_language_model(run)[0].eval(), vocabulary_of(run)
    text = "the cat sat on the mat\n\nthe mat"
    batch = tokenizer(text, return_tensors="pt")
    expected = [number for line in text.splitlines(keepends=True) for number in vocabulary.encode(line)]
    # A word-level line without its end has none.
    assert batch["input_ids"][0].tolist() == expected[: batch["input_ids"].shape[1]]
    with torch.no_grad():
        found = model(**batch).logits
        hidden, _ = ours(batch["input_ids"])
        assert torch.equal(found, ours.log_probabilities(hidden))


def test_the_pipeline_writes_on(run: Path) -> None:
    write = pipeline("text-generation", model=str(run.parent / "hf"))
    text = "the cat sat"
    (alone,) = write(text, max_new_tokens=9, do_sample=False)
    assert alone["generated_text"].startswith(text)
    assert len(alone["generated_text"]) > len(text)
    both = write([text, "the mat was red\n"], max_new_tokens=9, do_sample=False, batch_size=2)
    assert both[0][0]["generated_text"] == alone["generated_text"]


def test_the_card_tells_the_results(run: Path) -> None:
    card = (run.parent / "hf" / "README.md").read_text(encoding="utf-8")
    unit = vocabulary_of(run).tokenizer.unit
    assert "pipeline_tag: text-generation" in card
    assert f"| split | context | step | perplexity per {unit} |" in card
    assert "| test | independent segments of 8 |" in card
    assert f"Beyond 8 {unit}s it was not trained" in card


def test_the_folder_has_the_mode_of_any_other(run: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((run.parent / "hf").stat().st_mode) == 0o777 & ~umask


def test_a_run_that_was_not_measured_says_so(run: Path, tmp_path: Path) -> None:
    kept = (run / "evaluations.jsonl").read_bytes()
    (run / "evaluations.jsonl").unlink()
    try:
        export(run, tmp_path / "hf")
    finally:
        (run / "evaluations.jsonl").write_bytes(kept)
    assert "not measured; `fastweights evaluate` does it" in (tmp_path / "hf" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_perplexity_of_lm_eval_is_ours(run: Path) -> None:
    lm_eval, datasets = pytest.importorskip("lm_eval"), pytest.importorskip("datasets")
    task_class = pytest.importorskip("lm_eval.api.task").ConfigurableTask
    vocabulary, length = vocabulary_of(run), 8
    corpus = open_corpus(str(run.parent / "book.txt"), vocabulary.tokenizer, run.parent / "cache")
    # Whole segments, after one token that takes the place of what lm-eval puts before a text.
    stream = corpus.split("test")
    start = next(i for i, number in enumerate(stream) if vocabulary.symbols[number] in ("<eos>", "\n", "Ċ"))
    count = (len(stream) - start - 1) // length * length
    tokens = stream[start : start + count + 1]
    text = "".join(vocabulary.decode(int(number) for number in tokens[1:]))

    def process(document: dict[str, Any], results: tuple[float]) -> dict[str, tuple[float, int]]:
        return {"word_perplexity": (results[0], count)}

    task = task_class(
        config={
            "task": "book",
            "custom_dataset": lambda **_: {"test": datasets.Dataset.from_list([{"page": text}])},
            "output_type": "loglikelihood_rolling",
            "test_split": "test",
            "doc_to_text": "",
            "doc_to_target": lambda document: document["page"],
            "process_results": process,
            "metric_list": [{"metric": "word_perplexity"}],
        }
    )
    found = lm_eval.simple_evaluate(
        model="hf", model_args={"pretrained": str(run.parent / "hf"), "device": "cpu"}, tasks=[task], bootstrap_iters=0
    )
    from fastweights.evaluation.perplexity import IndependentSegments
    from fastweights.evaluation.perplexity import evaluate as measure

    score = measure(load_language_model(run)[0], tokens, IndependentSegments(length))
    assert score is not None
    assert found["results"]["book"]["word_perplexity,none"] == pytest.approx(score.perplexity, abs=1e-3)


@pytest.mark.slow
def test_the_command_line_of_lm_eval_reports_what_evaluate_reports(tmp_path: Path) -> None:
    """`lm_eval` on a file and `fastweights evaluate --data` on the same, whole segments of it."""
    pytest.importorskip("lm_eval", reason="lm-eval is not installed; the extra eval has it")
    train(train_options(write_book(tmp_path)))
    export(tmp_path / "run", tmp_path / "hf")
    # 8 words a line, its end included: every line is one segment.
    page = "the cat sat on the red mat\n" * 20
    (tmp_path / "page.txt").write_text(page, encoding="utf-8")
    # What lm-eval puts before a text, the end of a line, stands here in the file.
    (tmp_path / "text.txt").write_text("\n" + page, encoding="utf-8")
    evaluate(
        EvaluateOptions(
            run=tmp_path / "run", cache=tmp_path / "cache", context="segments", data=str(tmp_path / "text.txt")
        )
    )
    ours = json.loads((tmp_path / "run" / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert (ours["tokens"], ours["context"]) == (160, "independent segments of 8")
    code = "import fastweights.hf; from lm_eval.__main__ import cli_evaluate; cli_evaluate()"
    tasks = Path(__file__).parents[3] / "examples" / "lm_eval"
    options = (
        f"--model hf --model_args pretrained=hf --tasks page --include_path {tasks} --device cpu --output_path out"
    )
    subprocess.run(
        [sys.executable, "-c", code, *options.split()],
        check=True,
        cwd=tmp_path,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path / "datasets")},
    )
    (file,) = (tmp_path / "out").rglob("results*.json")
    theirs = json.loads(file.read_text(encoding="utf-8"))["results"]["page"]["word_perplexity,none"]
    assert theirs == pytest.approx(ours["perplexity"], abs=1e-3)
