"""Seq2SeqTrainer trains the translator and evaluates it by generating."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

from fastweights.data.translation_tokeniser import END, PAD, JointBytePairs
from fastweights.feature_maps import DPFP
from fastweights.hf import FastWeightForSeq2SeqLM
from fastweights.hf.tokenizer import fast_tokenizer
from fastweights.models.translator import Translator
from translators import everywhere, summed

PAIRS = [("two dogs", "zwei Hunde"), ("a cat", "eine Katze"), ("dogs run", "Hunde laufen"), ("a dog runs", "ein Hund")]


@pytest.fixture
def trainer(tmp_path: Path) -> Seq2SeqTrainer:
    tokeniser = JointBytePairs(300).fit([line for pair in PAIRS for line in pair] * 3)
    tokenizer = fast_tokenizer(tokeniser.model)
    torch.manual_seed(0)
    config = everywhere(summed(DPFP(2)))
    model = FastWeightForSeq2SeqLM.of(Translator(replace(config, vocabulary_size=300, dropout=0.0)))
    rows = [dict(tokenizer(source, text_target=target)) for source, target in PAIRS]
    options = Seq2SeqTrainingArguments(
        output_dir=str(tmp_path), max_steps=60, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        learning_rate=1e-2, lr_scheduler_type="constant",
        predict_with_generate=True, generation_max_length=12, generation_num_beams=2,
        use_cpu=True, report_to=[], save_strategy="no", logging_steps=10, disable_tqdm=True, seed=1,
    )  # fmt: skip
    return Seq2SeqTrainer(
        model=model,
        args=options,
        train_dataset=rows,  # type: ignore[arg-type]
        eval_dataset=rows,  # type: ignore[arg-type]
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
    )


def test_it_learns_pairs_by_heart(trainer: Seq2SeqTrainer) -> None:
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before / 4
    found = trainer.predict(trainer.eval_dataset).predictions
    texts = trainer.processing_class.batch_decode(np.where(found == -100, PAD, found), skip_special_tokens=True)
    assert texts == [target for _, target in PAIRS]


def test_it_trains_the_same_with_gradient_checkpointing(trainer: Seq2SeqTrainer) -> None:
    trainer.args.max_steps = 2
    model, start = trainer.model, copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    expected = {name: weight.clone() for name, weight in model.state_dict().items()}
    model.load_state_dict(start)
    trainer.optimizer = trainer.lr_scheduler = None
    trainer.args.gradient_checkpointing = True
    trainer.train()
    assert model.is_gradient_checkpointing
    assert_close(model.state_dict(), expected, rtol=0, atol=0)


def test_its_loss_counts_tokens_and_not_parts(trainer: Seq2SeqTrainer) -> None:
    """Two parts with different numbers of tokens weigh by their tokens."""
    model, batch = trainer.model, [trainer.data_collator([row]) for row in trainer.train_dataset]
    total = sum(int((part["labels"] != -100).sum()) for part in batch)
    model.eval()
    with torch.no_grad():
        parts = sum(model(**part, num_items_in_batch=total).loss for part in batch)
        whole = model(**trainer.data_collator(list(trainer.train_dataset))).loss
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-6)
    assert all(part["labels"][0, -1] == END for part in batch)
