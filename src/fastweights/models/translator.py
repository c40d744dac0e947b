"""An encoder-decoder for translation, with any attention in each of its three places (Sec. 6.2, App. D)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import override

from fastweights.config import ConfigCodec, require_at_least, require_at_most
from fastweights.layers import Block, FeedForward, SinusoidalPositions
from fastweights.layers.block import MOST_LAYERS
from fastweights.layers.decoder_block import DecoderBlock
from fastweights.layers.exact.dropout import Dropout
from fastweights.layers.tied_embedding import TiedEmbedding
from fastweights.memory import LayerState
from fastweights.models.attention import REGISTRIES, AttentionConfig, SoftmaxAttentionConfig
from fastweights.models.checkpointing import CheckpointedModel
from fastweights.shapes import Inputs, Mask, SourceMask

CODEC = ConfigCodec(REGISTRIES)

Tokens = Int[Tensor, "b t"]


@dataclass(frozen=True)
class TranslatorConfig:
    """Everything that decides a translator's parameters and what it computes."""

    vocabulary_size: int
    model_dim: int = 128
    num_heads: int = 4
    encoder_layers: int = 2
    decoder_layers: int = 2
    feed_forward_dim: int = 256
    encoder_attention: AttentionConfig = SoftmaxAttentionConfig()  # noqa: RUF009  a frozen value
    decoder_attention: AttentionConfig = SoftmaxAttentionConfig()  # noqa: RUF009
    cross_attention: AttentionConfig = SoftmaxAttentionConfig()  # noqa: RUF009
    pre_norm: bool = False
    dropout: float = 0.1

    def __post_init__(self) -> None:
        require_at_least(1, self, "vocabulary_size", "model_dim", "num_heads", "feed_forward_dim")
        require_at_least(1, self, "encoder_layers", "decoder_layers")
        require_at_most(MOST_LAYERS, self, "encoder_layers", "decoder_layers")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: expected a probability below 1, got {self.dropout}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `from_dict` reads back."""
        plain: dict[str, Any] = CODEC.to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "TranslatorConfig":
        """The configuration that `plain` describes; a ValueError names what does not fit."""
        return CODEC.from_plain(cls, plain)


class Translator(CheckpointedModel):
    """p(y_{i+1} | y_1 … y_i, source): encoder, decoder and softmax share one table of embeddings.

    `forward` takes whole sentences. To translate step by step, `encode` a source, `write` it into the memories of the
    decoder's layers once, and `decode` from the states that the last step left; memories and states are all there is
    of the past.
    """

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TiedEmbedding(config.vocabulary_size, config.model_dim)
        self.positions = SinusoidalPositions(config.model_dim)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(self._encoder_block() for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(self._decoder_block() for _ in range(config.decoder_layers))
        # Post-LN blocks end in a layer norm of their own.
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(config.model_dim) if config.pre_norm else nn.Identity() for _ in range(2)
        )
        self._initialise()

    @override
    def forward(self, source: Int[Tensor, "b s"], inputs: Tokens, source_mask: SourceMask | None = None) -> Inputs:
        """The hidden vectors that predict the token after each of `inputs`, with nothing kept (teacher forcing)."""
        encoded = self.encode(source, source_mask)
        x = self.dropout(self.positions(self.embedding(inputs)))
        for block in self.decoder:
            x = self.through(cast("DecoderBlock", block).attend, x, encoded, None, source_mask)
        return self.decoder_norm(x)

    def encode(self, source: Tokens, mask: Mask | None = None) -> Inputs:
        """The encoder's hidden vectors; where `mask` is false, a step is padding and changes nothing."""
        return self.run_encoder(self.embedding(source), mask)

    def run_encoder(self, embedded: Inputs, mask: Mask | None = None) -> Inputs:
        """Run the encoder's layers on embedded tokens; `encode` embeds the tokens first."""
        x = self.dropout(self.positions(embedded, None, mask))
        for block in self.encoder:
            x = self.through(cast("Block", block).attend, x, mask)
        return self.encoder_norm(x)

    def write(
        self, encoded: Inputs, mask: Mask | None = None, memories: Sequence[LayerState] | None = None
    ) -> list[LayerState]:
        """The memory of every decoder layer after an encoded source, or after a further piece of it."""
        before = [None] * len(self.decoder) if memories is None else self._one_for_each_layer(memories, "memories")
        return [
            cast("DecoderBlock", block).write(encoded, memory, mask)
            for block, memory in zip(self.decoder, before, strict=True)
        ]

    def decode(
        self,
        inputs: Tokens,
        memories: Sequence[LayerState],
        states: Sequence[LayerState] | None = None,
        mask: Mask | None = None,
    ) -> tuple[Inputs, list[LayerState]]:
        """The hidden vectors that predict the token after each of `inputs`, and the state of every decoder layer.

        Where there are n times as many rows of inputs as of memories, n rows after each other share one source, as
        the hypotheses of a beam search do.
        """
        return self.run_decoder(self.embedding(inputs), memories, states, mask)

    def run_decoder(
        self,
        embedded: Inputs,
        memories: Sequence[LayerState],
        states: Sequence[LayerState] | None = None,
        mask: Mask | None = None,
    ) -> tuple[Inputs, list[LayerState]]:
        """Run the decoder's layers on embedded tokens; `decode` embeds the tokens first."""
        memories = self._one_for_each_layer(memories, "memories")
        before = [None] * len(self.decoder) if states is None else self._one_for_each_layer(states, "states")
        x = self.dropout(self.positions(embedded, None if before[0] is None else before[0].steps, mask))
        after = []
        for block, memory, state in zip(self.decoder, memories, before, strict=True):
            x, state_after = self.through(block, x, memory, state, mask)
            after.append(state_after)
        return self.decoder_norm(x), after

    def losses(self, hidden: Inputs, labels: Tokens, smoothing: float = 0.0) -> Float[Tensor, " targets"]:
        """-log p of every label, smoothed if asked (`TiedEmbedding.losses`); a negative label is no target."""
        return self.embedding.losses(hidden, labels, smoothing)

    def log_probabilities(self, hidden: Inputs) -> Float[Tensor, "b t vocabulary"]:
        """log p of every word of the vocabulary."""
        return self.embedding.log_probabilities(hidden)

    def _encoder_block(self) -> Block:
        config = self.config
        return Block(
            config.model_dim,
            config.encoder_attention.build(config.model_dim, config.num_heads, "encoder"),
            FeedForward(config.model_dim, config.feed_forward_dim, config.dropout),
            pre_norm=config.pre_norm,
            dropout=config.dropout,
        )

    def _decoder_block(self) -> DecoderBlock:
        config = self.config
        return DecoderBlock(
            config.model_dim,
            config.decoder_attention.build(config.model_dim, config.num_heads, "decoder"),
            config.cross_attention.build(config.model_dim, config.num_heads, "cross"),
            FeedForward(config.model_dim, config.feed_forward_dim, config.dropout),
            pre_norm=config.pre_norm,
            dropout=config.dropout,
        )

    def _initialise(self) -> None:
        """Xavier uniform; queries, keys and values with half its variance, as in the recipe of the paper."""
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                if name.endswith("projection"):
                    # Several square matrices stand one below the other: each gets the bound of its own size.
                    bound = (3 / (2 * module.in_features)) ** 0.5
                    nn.init.uniform_(module.weight, -bound, bound)
                else:
                    nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def _one_for_each_layer(self, states: Sequence[LayerState], name: str) -> Sequence[LayerState]:
        if len(states) != len(self.decoder):
            raise ValueError(f"{name}: expected one for each of the {len(self.decoder)} layers, got {len(states)}")
        return states
