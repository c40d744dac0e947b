"""A decoder-only language model with any attention of the library (Sec. 6.3, App. E)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import override

from fastweights.config import ConfigCodec, require_at_least, require_at_most
from fastweights.layers import Block, FeedForward, SinusoidalPositions
from fastweights.layers.adaptive_embedding import AdaptiveEmbedding
from fastweights.layers.block import MOST_LAYERS
from fastweights.layers.exact.dropout import Dropout
from fastweights.layers.exact.padding import is_readable
from fastweights.layers.word_scores import WordScores
from fastweights.memory import LayerState
from fastweights.models.attention import REGISTRIES, AttentionConfig, FastWeightAttentionConfig
from fastweights.models.checkpointing import CheckpointedModel
from fastweights.shapes import Inputs, Mask

CODEC = ConfigCodec(REGISTRIES)


@dataclass(frozen=True)
class LanguageModelConfig:
    """Everything that determines a model's parameters and its computation.

    `cutoffs` beyond the vocabulary are left out, so one configuration serves vocabularies of any size.
    """

    vocabulary_size: int
    model_dim: int = 128
    num_heads: int = 8
    num_layers: int = 16
    feed_forward_dim: int = 2048
    attention: AttentionConfig = FastWeightAttentionConfig()  # noqa: RUF009  a frozen value
    positions: bool = True
    pre_norm: bool = False
    dropout: float = 0.1
    cutoffs: tuple[int, ...] = (20_000, 40_000, 200_000)

    def __post_init__(self) -> None:
        require_at_least(1, self, "vocabulary_size", "model_dim", "num_heads", "num_layers", "feed_forward_dim")
        require_at_most(MOST_LAYERS, self, "num_layers")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: expected a probability below 1, got {self.dropout}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `from_dict` reads back."""
        plain: dict[str, Any] = CODEC.to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "LanguageModelConfig":
        """The configuration that `plain` describes; a ValueError names what does not fit."""
        return CODEC.from_plain(cls, plain)


class LanguageModel(CheckpointedModel):
    """p(x_{i+1} | x_1 … x_i): embedding, positions, blocks, tied adaptive softmax.

    The states of the layers go in and come out, so a text can be fed whole, in segments or token by token.
    """

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        cutoffs = tuple(cutoff for cutoff in config.cutoffs if cutoff < config.vocabulary_size)
        self.embedding = AdaptiveEmbedding(config.vocabulary_size, config.model_dim, cutoffs)
        self.positions = SinusoidalPositions(config.model_dim) if config.positions else None
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(
                config.model_dim,
                config.attention.build(config.model_dim, config.num_heads),
                FeedForward(config.model_dim, config.feed_forward_dim, config.dropout),
                pre_norm=config.pre_norm,
                dropout=config.dropout,
            )
            for _ in range(config.num_layers)
        )
        self.final_norm = nn.LayerNorm(config.model_dim) if config.pre_norm else nn.Identity()
        self.apply(_initialise)

    @override
    def forward(
        self, tokens: Int[Tensor, "b t"], states: Sequence[LayerState] | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, list[LayerState]]:
        """The hidden vectors that predict the next token at each position, and the state of every layer."""
        check_tokens("tokens", tokens, self.config.vocabulary_size)
        return self.run(self.embedding(tokens), states, mask)

    def run(
        self, embedded: Inputs, states: Sequence[LayerState] | None = None, mask: Mask | None = None
    ) -> tuple[Inputs, list[LayerState]]:
        """Run the layers on embedded tokens; `forward` embeds the tokens first."""
        if states is not None and len(states) != len(self.blocks):
            raise ValueError(f"states: expected one for each of the {len(self.blocks)} layers, got {len(states)}")
        x = embedded
        if self.positions is not None:
            x = self.positions(x, None if states is None else states[0].steps, mask)
        x = self.dropout(x)
        after = []
        for number, block in enumerate(self.blocks):
            x, state = self.through(block, x, None if states is None else states[number], mask)
            after.append(state)
        return self.dropout(self.final_norm(x)), after

    def initial_states(self, batch: int) -> list[LayerState]:
        """The states of all layers before the first step of `batch` sequences."""
        table = self.embedding.table
        return [cast("Block", block).initial_state(batch, table.dtype, table.device) for block in self.blocks]

    def losses(self, hidden: Inputs, targets: Int[Tensor, "b t"]) -> Float[Tensor, "b t"]:
        """-log p of each target."""
        check_tokens("targets", targets, self.config.vocabulary_size)
        check_targets("targets", targets, hidden)
        return self.embedding.losses(hidden, targets)

    def log_probabilities(self, hidden: Inputs) -> Float[Tensor, "b t vocabulary"]:
        """log p of every word of the vocabulary."""
        return self.embedding.log_probabilities(hidden)

    def scores(self, hidden: Float[Tensor, " model"]) -> WordScores:
        """log p of the words that can follow one hidden vector, for drawing one of them."""
        return self.embedding.scores(hidden)


def check_tokens(name: str, tokens: Tensor, vocabulary_size: int, more: str = "") -> None:
    """Raise a ValueError if `tokens` are not ids of a vocabulary; `more` says what else they may be.

    Values are looked at on the CPU only, as a GPU would make the host wait, and not while a call is compiled or traced.
    """
    expected = f"{name}: expected ids of a vocabulary of {vocabulary_size}"
    if tokens.dtype not in (torch.int64, torch.int32) or tokens.dim() != 2:
        got = f"{tokens.dtype} of shape {tuple(tokens.shape)}"
        raise ValueError(f"{expected}, a tensor of torch.int64 or torch.int32 of shape (b, t), got {got}")
    if not is_readable(tokens) or not tokens.is_cpu or tokens.numel() == 0:
        return
    low, high = (int(bound) for bound in tokens.aminmax())
    if low < 0 or high >= vocabulary_size:
        raise ValueError(f"{expected}, from 0 to {vocabulary_size - 1}{more}, got {low} to {high}")


def check_targets(name: str, targets: Tensor, hidden: Tensor) -> None:
    """Raise a ValueError unless there is a target for each hidden vector."""
    if targets.shape != hidden.shape[:-1]:
        expected = f"expected one for each of the {tuple(hidden.shape[:-1])} hidden vectors"
        raise ValueError(f"{name}: {expected}, got {tuple(targets.shape)}")


def _initialise(module: nn.Module) -> None:
    """Weights N(0, 0.02), biases 0, layer-norm weights N(1, 0.02), as in the published models."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.LayerNorm):
        nn.init.normal_(module.weight, mean=1.0, std=0.02)
        nn.init.zeros_(module.bias)
