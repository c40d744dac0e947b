"""Training a language model: segments, the loss of the next token, carried memory, perplexity (Sec. 6.3, App. E)."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.data.text.corpus import Corpus
from fastweights.data.text.segments import Segment, SegmentStream
from fastweights.evaluation import perplexity
from fastweights.evaluation.perplexity import CarriedState, Context, Score, perplexity_of
from fastweights.evaluation.positions import edges_up_to, losses_by_position, losses_in_segments
from fastweights.experiments.language_models.carrying import begins_anew, reset_columns, reset_rows, rewritten
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.landings import measured_writes
from fastweights.experiments.language_models.published_gradient import leave_carried_memory_out
from fastweights.experiments.load import source_file
from fastweights.files import Json
from fastweights.memory import FastWeightState
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModel
from fastweights.runs.checkpoint import Tensors
from fastweights.runs.display import Display
from fastweights.runs.record import rounded
from fastweights.training.carried_state import States
from fastweights.training.config import TrainingConfig
from fastweights.training.execute import load_model_of
from fastweights.training.random_numbers import seed_for
from fastweights.training.task import Evaluation, Interrupted, Share, Task
from fastweights.training.tensors import digest_of_weights, load_model

SPANS = (1, 4, 16, 64, 256)
"""Segments after which the memory of a model with carried memory is reset, to see how far back it helps."""


@dataclass(frozen=True, eq=False)
class Start:
    """The weights that training begins with, and the run and step that they come from."""

    weights: Tensors
    run: str
    step: int


class LanguageModelTask(Task[Segment]):
    """L = -1/(b t) Σ log p(x_{i+1} | x_1 … x_i), the memory carried from segment to segment if the task says so."""

    try_next = "generate"

    def __init__(
        self,
        config: LanguageModellingConfig,
        training: TrainingConfig,
        corpus: Corpus,
        source: str | None = None,
        start: Start | None = None,
    ) -> None:
        if (config.model.vocabulary_size, config.text) != (len(corpus.vocabulary), corpus.digest):
            raise ValueError("run: it is that of another text or vocabulary")
        if config.start != ("" if start is None else digest_of_weights(start.weights)):
            raise ValueError("start: it is the digest of the weights that training begins with; --from fills it in")
        self.config, self.training, self.corpus, self.source, self.start = config, training, corpus, source, start
        self.unit = corpus.vocabulary.tokenizer.unit
        length, shuffle = config.segment_length, config.shuffle
        self.stream = SegmentStream(corpus.train, training.batch_size, length, shuffle, training.seed)
        if len(corpus.valid) < 2:
            raise ValueError(
                f"valid: a text of {len(corpus.valid)} {self.unit} has nothing to predict; expected at least 2"
            )

    @override
    def build(self) -> LanguageModel:
        torch.manual_seed(seed_for("model", self.training.seed))
        model = LanguageModel(self.config.model).eval()
        if self.config.carrying.published_gradient:
            leave_carried_memory_out(model)
        with torch.no_grad(), self.training.autocast(torch.device("cpu")):
            model(torch.zeros(1, 1, dtype=torch.int64))
        states = model.initial_states(1) if self.config.carry_state else ()
        if any(state.grows for state in states):
            raise ValueError("carry_state: softmax attention keeps every step, its state would grow without bound")
        if self.config.carrying.reset_chance and not all(isinstance(state, FastWeightState) for state in states):
            raise ValueError("reset_chance: only memories of fixed size are reset one by one; possible: reset_every")
        if self.start is not None:
            load_model(model, self.start.weights, "start")
        return model

    @override
    def batch(self, step: int, share: Share) -> Segment:
        columns, carrying = share.of(self.training.batch_size), self.config.carrying
        segment = self.stream.at(step, columns)
        place = step % self.stream.segments
        if carrying.rewritten:
            since = place % carrying.reset_every if carrying.reset_every else place
            count = min(carrying.rewritten, since)
            return replace(segment, before=self.stream.before(step, count, columns) if count else None)
        reset = None
        if carrying.reset_chance:
            reset = reset_columns(carrying, self.training.seed, step, self.training.batch_size)[columns]
        return replace(segment, first=begins_anew(carrying, place), reset=reset)

    @override
    def loss(self, model: nn.Module, batch: Segment, states: States | None) -> tuple[Tensor, States | None]:
        assert isinstance(model, LanguageModel)
        device = next(model.parameters()).device
        carry = self._carries
        if not carry or batch.first:
            states = None
        elif states is not None and batch.reset is not None:
            states = reset_rows(states, model.initial_states(len(batch.inputs)), batch.reset)
        if batch.before is not None:
            states = rewritten(model, batch.before.to(device, non_blocking=True))
        # A copy that blocks would make the host wait until the device has done everything before it.
        hidden, after = model(batch.inputs.to(device, non_blocking=True), states)
        loss = model.losses(hidden, batch.targets.to(device, non_blocking=True)).mean()
        return loss, [state.detach().clone() for state in after] if carry else None

    @property
    def _carries(self) -> bool:
        """Whether a step goes on with the memories that the step before left."""
        return self.config.carry_state and not self.config.carrying.rewritten

    @override
    def evaluate(self, model: nn.Module, step: int, interrupted: Interrupted) -> Evaluation | None:
        score = self._score(model, "valid", self.config.validation, interrupted=interrupted)
        return None if score is None else Evaluation(score.loss, {"valid_loss": score.loss})

    @override
    def rows(self, step: int, share: Share) -> Sequence[int]:
        columns = share.of(self.training.batch_size)
        return range(columns.start, columns.stop)

    @override
    def starts_anew(self, step: int) -> bool:
        return not self._carries or begins_anew(self.config.carrying, step % self.stream.segments)

    @override
    def initial_states(self, model: nn.Module, rows: int) -> States | None:
        if not self._carries:
            return None
        assert isinstance(model, LanguageModel)
        return model.initial_states(rows)

    @override
    def epoch(self, step: int) -> int:
        return step // self.stream.segments

    @override
    def place(self, step: int) -> str:
        return f"step {step + 1} (epoch {self.epoch(step)}, segment {step % self.stream.segments})"

    @override
    def units(self, step: int) -> int:
        return self.training.batch_size * self.config.segment_length

    @override
    def shown(self, loss: float) -> dict[str, float]:
        return {"perplexity": perplexity_of(loss)}

    @override
    def summary(self, evaluations: Sequence[Json]) -> Json:
        best = min((line["valid_loss"] for line in evaluations if line.get("valid_loss") is not None), default=None)
        perplexity = None if best is None else perplexity_of(best)
        found: Json = {"valid_perplexity": perplexity, "validation": str(self.config.validation)}
        if self.start is not None:
            found["continues"] = {"run": Path(self.start.run).name, "step": self.start.step}
        return found

    @override
    def measure(self, folder: Path, device: torch.device, display: Display) -> Json:
        """Losses of the best checkpoint on valid and test, with the context that the model was trained with."""
        model = LanguageModel(self.config.model)
        checkpoint = load_model_of(folder, model)
        model.to(device)
        display.shows(self.unit, self.shown)
        measured: Json = {"evaluated_step": checkpoint.step}

        def score(split: str, context: Context) -> Score:
            found = self._score(model, split, context, on_progress=display.count)
            assert found is not None
            display.say(f"{folder.name}: {split} perplexity {found.perplexity:.2f} ({context})")
            return found

        for split in ("valid", "test"):
            measured[split] = rounded(asdict(score(split, self.config.measurement)))
        if self.config.carry_state:
            length = self.config.segment_length
            contexts = [CarriedState(length, segments * length) for segments in SPANS]
            measured["reach"] = {str(context.reach): rounded(score("valid", context).loss) for context in contexts}
        edges, losses = losses_in_segments(model, self.corpus.valid, self.config.segment_length, device)
        measured["segment"] = {"edges": list(edges), "losses": [rounded(loss) for loss in losses]}
        if not any(state.grows for state in model.initial_states(1)):
            measured["positions"] = self._positions(model)
        if isinstance(self.config.model.attention, FastWeightAttentionConfig):
            measured["writes"] = measured_writes(model, self.corpus.valid)
        return measured

    def _positions(self, model: LanguageModel) -> Json:
        """Losses by position in the validation text: the memory carried on, and reset after every segment."""
        tokens, length = self.corpus.valid, self.config.segment_length
        edges, device = edges_up_to(len(tokens) - 1), next(model.parameters()).device
        contexts = {"carried": CarriedState(length), "reset": CarriedState(length, length)}
        losses = {
            side: [rounded(loss) for loss in losses_by_position(model, tokens, context, edges, device)]
            for side, context in contexts.items()
        }
        return {"edges": list(edges), **losses}

    @override
    def files(self) -> dict[str, str]:
        files = {"vocabulary.json": self.corpus.vocabulary.to_json(), **source_file(self.source)}
        if self.start is not None:
            files["start.json"] = json.dumps({"run": self.start.run, "step": self.start.step}) + "\n"
        return files

    def _score(
        self,
        model: nn.Module,
        split: str,
        context: Context,
        interrupted: Interrupted = lambda: False,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Score | None:
        assert isinstance(model, LanguageModel)
        device = next(model.parameters()).device
        tokens = self.corpus.split(split)
        return perplexity.evaluate(
            model, tokens, context, device=device, interrupted=interrupted, on_progress=on_progress
        )
