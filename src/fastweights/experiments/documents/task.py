"""Training a translator on documents: a sentence of each at a time, the decoder's memories carried on or not."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.data.document_batches import DocumentBatches
from fastweights.data.translation import TranslationCorpus
from fastweights.data.translation_batches import TranslationBatch
from fastweights.data.translation_files import VALID
from fastweights.evaluation.bleu import score_translations
from fastweights.evaluation.documents import (
    before_next_sentence,
    losses_by_place,
    read_sentence,
    translate_documents,
)
from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.documents.config import DocumentsConfig
from fastweights.experiments.load import source_file
from fastweights.files import Json
from fastweights.layers.decoder_block import DecoderBlock
from fastweights.models.translator import Translator
from fastweights.runs.display import Display
from fastweights.runs.record import rounded
from fastweights.training.carried_state import States
from fastweights.training.config import TrainingConfig
from fastweights.training.execute import load_model_of
from fastweights.training.random_numbers import seed_for
from fastweights.training.task import Evaluation, Interrupted, Share, Task

MEASURED_COLUMNS = 16
"""Stretches of a validation or test text that are translated side by side."""
KEPT = ("bleu", "brevity_penalty", "signature", "statistics")
"""Of a score, in a record."""

Batch = tuple[TranslationBatch, bool]
"""Sentences, and whether documents begin with them."""


class DocumentsTask(Task[Batch]):
    """L = -1/N Σ log p(y_i | y_1 … y_{i-1}, x, memories of the document so far) over N real target tokens, smoothed."""

    unit = "sentence"

    def __init__(
        self, config: DocumentsConfig, training: TrainingConfig, corpus: TranslationCorpus, source: str | None = None
    ) -> None:
        self.config, self.training, self.corpus, self.source = config, training, corpus, source
        if (known := len(corpus.tokeniser)) != config.model.vocabulary_size:
            raise ValueError(
                f"vocabulary_size: the text has {known} byte pairs, not {config.model.vocabulary_size}; "
                f"possible: --set model.vocabulary_size={known}"
            )
        if config.pairs != corpus.digest:
            raise ValueError("run: it is that of other pairs or languages")
        self.batches = DocumentBatches(corpus.train, training.batch_size, config.longest)
        self.measured = {split: self._measured(split) for split in (VALID, *corpus.test_names)}

    @override
    def build(self) -> Translator:
        torch.manual_seed(seed_for("model", self.training.seed))
        model = Translator(self.config.model)
        if self.config.carried and any(state.grows for state in _empty(model, 1)):
            raise ValueError("carried: softmax attention keeps every step, its state would grow with the document")
        return model

    @override
    def batch(self, step: int, share: Share) -> Batch:
        columns = share.of(self.training.batch_size)
        return self.batches.at(step, columns, share.parts), self.starts_anew(step)

    @override
    def loss(self, model: nn.Module, batch: Batch, states: States | None) -> tuple[Tensor, States | None]:
        assert isinstance(model, Translator)
        sentences, begins = batch
        sentences = sentences.to(next(model.parameters()).device)
        hidden, after = read_sentence(model, sentences, None if begins else states)
        loss = model.losses(hidden, sentences.labels, self.config.smoothing).sum() * sentences.weight
        if not self.config.carried:
            return loss, None
        return loss, [state.detach().clone() for state in before_next_sentence(after)]

    @override
    def evaluate(self, model: nn.Module, step: int, interrupted: Interrupted) -> Evaluation | None:
        assert isinstance(model, Translator)
        config = self.config
        if interrupted():
            return None
        loss = losses_by_place(model, self.measured[VALID], config.document, carried=config.carried).mean()
        return Evaluation(loss, {"valid_loss": loss})

    @override
    def rows(self, step: int, share: Share) -> Sequence[int]:
        columns = share.of(self.training.batch_size)
        return range(columns.start, columns.stop)

    @override
    def starts_anew(self, step: int) -> bool:
        return not self.config.carried or step % len(self.batches) % self.config.document == 0

    @override
    def initial_states(self, model: nn.Module, rows: int) -> States | None:
        assert isinstance(model, Translator)
        return _empty(model, rows) if self.config.carried else None

    @override
    def epoch(self, step: int) -> int:
        return step // len(self.batches)

    @override
    def shown(self, loss: float) -> dict[str, float]:
        return {"perplexity": perplexity_of(loss)}

    @override
    def summary(self, evaluations: Sequence[Json]) -> Json:
        return {"pairs": len(self.batches.pairs), "left_out": self.batches.left_out}

    @override
    def measure(self, folder: Path, device: torch.device, display: Display) -> Json:
        """Losses and BLEU of the best step, with memories that are carried on if they were in training, and without."""
        model = Translator(self.config.model)
        checkpoint = load_model_of(folder, model)
        model.to(device).eval()
        readings = {
            split: {
                ("carried" if carried else "alone"): self._reading(model, split, carried)
                for carried in ((True, False) if self.config.carried else (False,))
            }
            for split in self.measured
        }
        return {"evaluated_step": checkpoint.step, "readings": readings}

    def _reading(self, model: Translator, split: str, carried: bool) -> Json:
        batches, document = self.measured[split], self.config.document
        losses = losses_by_place(model, batches, document, carried=carried)
        found = sorted(translate_documents(model, batches, document, carried=carried))
        references = self.corpus.lines(split)[1]
        texts = [text.replace("\n", " ") for text in self.corpus.tokeniser.decode([tokens for _, tokens in found])]
        score = asdict(score_translations(texts, [references[number] for number, _ in found]))
        return {
            "sentences": len(found),
            "loss": rounded(losses.mean()),
            "sums": [rounded(loss) for loss in losses.sums],
            "tokens": list(losses.tokens),
            **rounded({name: score[name] for name in KEPT}),
        }

    @override
    def files(self) -> dict[str, str]:
        return {"tokeniser.json": self.corpus.tokeniser.to_json(), **source_file(self.source)}

    def _measured(self, split: str) -> DocumentBatches:
        """A text in stretches of one whole document at least, if it has so many sentences."""
        pairs, longest = self.corpus.split(split), self.config.longest
        documents = len(DocumentBatches(pairs, 1, longest)) // self.config.document
        return DocumentBatches(pairs, max(1, min(MEASURED_COLUMNS, documents)), longest)


def _empty(model: Translator, rows: int) -> States:
    """Memories that hold nothing."""
    return [cast("DecoderBlock", block).initial_state(rows) for block in model.decoder]
