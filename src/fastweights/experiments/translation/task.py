"""Training a translator: batches by token budget, the smoothed loss per target token, BLEU (Sec. 6.2, App. D)."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.data.translation import TranslationCorpus
from fastweights.data.translation_batches import PairBatches, TranslationBatch
from fastweights.data.translation_files import VALID
from fastweights.evaluation.bleu import score_translations, write_lines
from fastweights.evaluation.perplexity import perplexity_of
from fastweights.evaluation.translate import Search, translate
from fastweights.experiments.load import source_file
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.files import Json
from fastweights.models.translator import Translator
from fastweights.runs.display import Display
from fastweights.runs.record import rounded
from fastweights.training.carried_state import States
from fastweights.training.config import TrainingConfig
from fastweights.training.execute import load_model_of
from fastweights.training.random_numbers import seed_for
from fastweights.training.task import Evaluation, Interrupted, Share, Task


class TranslationTask(Task[TranslationBatch]):
    """L = -1/N Σ log p(y_i | y_1 … y_{i-1}, x) over the N real target tokens of a step, smoothed."""

    unit, try_next = "token", "translate"

    def __init__(
        self, config: TranslationConfig, training: TrainingConfig, corpus: TranslationCorpus, source: str | None = None
    ) -> None:
        given = config.model.vocabulary_size, config.pairs, config.languages
        if given != (len(corpus.tokeniser), corpus.digest, corpus.languages):
            raise ValueError(
                "run: it is that of other pairs, languages or another tokeniser; possible: --source, --target and "
                "--vocabulary-size"
            )
        self.config, self.training, self.corpus, self.source = config, training, corpus, source
        budget, longest = training.batch_size, config.longest
        train, valid = (pairs.joined(config.joined) for pairs in (corpus.train, corpus.valid))
        self.batches = PairBatches(train, budget, longest, seed=training.seed)
        self.validation = PairBatches(valid, budget, longest, shuffle=False)

    @override
    def build(self) -> Translator:
        torch.manual_seed(seed_for("model", self.training.seed))
        return Translator(self.config.model)

    @override
    def batch(self, step: int, share: Share) -> TranslationBatch:
        return self.batches.at(step, share.part, share.parts)

    @override
    def loss(self, model: nn.Module, batch: TranslationBatch, states: States | None) -> tuple[Tensor, States | None]:
        assert isinstance(model, Translator)
        batch = batch.to(next(model.parameters()).device)
        hidden = model(batch.source, batch.inputs, batch.source_mask)
        return model.losses(hidden, batch.labels, self.config.smoothing).sum() * batch.weight, None

    @override
    @torch.no_grad()
    def evaluate(self, model: nn.Module, step: int, interrupted: Interrupted) -> Evaluation | None:
        """1 - BLEU of greedy translations of the validation pairs, and their loss per token without smoothing."""
        assert isinstance(model, Translator)
        device, total, tokens = next(model.parameters()).device, 0.0, 0
        for batch in self.validation:
            if interrupted():
                return None
            batch = batch.to(device)
            hidden = model(batch.source, batch.inputs, batch.source_mask)
            total += float(model.losses(hidden, batch.labels).double().sum())
            tokens += batch.tokens
        sources, references = self.corpus.lines(VALID, self.config.joined)
        found: list[str] = []
        for translation in translate(model, self.corpus.tokeniser, sources, Search(beams=1)):
            if interrupted():
                return None
            found.append(translation.text)
        bleu = score_translations(found, references).bleu
        return Evaluation(1 - bleu / 100, {"valid_loss": total / tokens, "valid_bleu": bleu})

    @override
    def rows(self, step: int, share: Share) -> Sequence[int]:
        return cast("list[int]", self.batches.rows(step, share.part, share.parts).tolist())

    @override
    def epoch(self, step: int) -> int:
        return step // self.batches.batches

    @override
    def place(self, step: int) -> str:
        return f"step {step + 1} (epoch {self.epoch(step)}, batch {step % self.batches.batches})"

    @override
    def metric_names(self) -> tuple[str, ...]:
        return "valid_loss", "valid_bleu"

    @override
    def shown(self, loss: float) -> dict[str, float]:
        return {"perplexity": perplexity_of(loss)}

    @override
    def shown_validation(self, loss: float) -> dict[str, float]:
        return {"BLEU": 100 * (1 - loss)}

    @override
    def summary(self, evaluations: Sequence[Json]) -> Json:
        best = max((line["valid_bleu"] for line in evaluations if line.get("valid_bleu") is not None), default=None)
        return {"valid_bleu": best, "pairs": len(self.batches.pairs), "left_out": self.batches.left_out}

    @override
    def measure(self, folder: Path, device: torch.device, display: Display) -> Json:
        """BLEU of the best step on the validation pairs and on every test set; the translations stay in the folder."""
        model = Translator(self.config.model)
        checkpoint = load_model_of(folder, model)
        model.to(device)
        display.shows("sentence", self.shown)
        search = Search(self.config.beams, self.config.length_penalty)
        scores, started = {}, time.process_time()
        for split in (VALID, *self.corpus.test_names):
            sources, references = self.corpus.lines(split, self.config.joined)
            translations = []
            for found in translate(model, self.corpus.tokeniser, sources, search):
                translations.append(found.text)
                display.count(len(translations), len(sources))
            write_lines(folder / f"{split}.{self.config.target}", translations)
            score = score_translations(translations, references)
            display.say(f"{folder.name}: {split} BLEU {score.bleu:.2f} (brevity penalty {score.brevity_penalty:.3f})")
            scores[split] = rounded(asdict(score))
        return {
            "evaluated_step": checkpoint.step,
            "scores": scores,
            "search": {"beams": search.beams, "length_penalty": search.length_penalty},
            "translating": {
                "core_seconds": round(time.process_time() - started, 3),
                "words": sum(row[8] for score in scores.values() for row in score["statistics"]),
            },
        }

    @override
    def files(self) -> dict[str, str]:
        return {"tokeniser.json": self.corpus.tokeniser.to_json(), **source_file(self.source)}
