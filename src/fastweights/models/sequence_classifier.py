"""A small model that answers at every step of a sequence: pre-norm blocks with any attention, and classes."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import override

from fastweights.config import require_at_least, require_at_most
from fastweights.layers import Block, FeedForward
from fastweights.layers.attention.short_convolution import CausalConvolution
from fastweights.layers.block import MOST_LAYERS, Attention
from fastweights.models.attention import AttentionConfig, FastWeightAttentionConfig
from fastweights.shapes import Inputs, Mask


@dataclass(frozen=True)
class SequenceClassifierConfig:
    """Everything about the blocks that decides their computation; what the steps hold is the task's.

    `convolution` is the number of steps that a short causal convolution in front of every attention sees, None for no
    convolution: a memory alone cannot join a name and its value that stand in different steps.
    """

    attention: AttentionConfig = FastWeightAttentionConfig()  # noqa: RUF009  a frozen value
    model_dim: int = 64
    num_heads: int = 4
    num_layers: int = 2
    feed_forward_dim: int = 128
    convolution: int | None = 3
    starts_alone: bool = True
    """Whether at first a step is little more than itself; otherwise all steps of the convolution count alike."""

    def __post_init__(self) -> None:
        require_at_least(1, self, "model_dim", "num_heads", "num_layers", "feed_forward_dim")
        require_at_most(MOST_LAYERS, self, "num_layers")
        if self.convolution is not None and self.convolution < 1:
            raise ValueError(f"convolution: expected at least 1 step, or null for none, got {self.convolution}")


class SequenceClassifier(nn.Module):
    """scores_t = W_c LN(blocks(embedding(x)_1 … embedding(x)_t)): of the classes at every step, from the past alone."""

    def __init__(self, config: SequenceClassifierConfig, embedding: nn.Module, num_classes: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = nn.ModuleList(_block(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.model_dim)
        self.classes = nn.Linear(config.model_dim, num_classes)

    @override
    def forward(self, x: Tensor) -> Float[Tensor, "b t classes"]:
        hidden = self.embedding(x)
        for block in self.blocks:
            assert isinstance(block, Block)
            hidden = block.attend(hidden)
        return self.classes(self.norm(hidden))


class ConvolvedAttention(nn.Module):
    """y = attention(silu(Σ_i c_i ∘ x_{t-i})): what an attention sees of a step holds the steps just before it."""

    attention: Attention

    def __init__(self, attention: nn.Module, model_dim: int, width: int, starts_alone: bool = True) -> None:
        super().__init__()
        self.convolution = CausalConvolution(model_dim, width, bias=False)
        if starts_alone:  # where nothing has to be joined, nothing has to be taken apart
            with torch.no_grad():
                self.convolution.weight.normal_(std=0.1)[:, -1] = 1.0
        self.attention = attention  # type: ignore[assignment]

    def attend(self, x: Inputs, mask: Mask | None = None) -> Inputs:
        """The outputs for whole sequences."""
        nothing = self.convolution.initial_state(x.shape[0], x.dtype, x.device)
        return self.attention.attend(self.convolution(x, nothing, mask)[0], mask)


class SentenceEmbedding(nn.Module):
    """x_t = Σ_j p_j ∘ e(w_tj): the words of a sentence, each at its place; word 0 is no word."""

    def __init__(self, num_words: int, longest: int, model_dim: int) -> None:
        super().__init__()
        self.words = nn.Embedding(num_words, model_dim, padding_idx=0)
        # Around one, so that at first every word counts, and different, so that their order does.
        self.places = nn.Parameter(1.0 + 0.2 * torch.randn(longest, model_dim))

    @override
    def forward(self, words: Int[Tensor, "b t w"]) -> Inputs:
        return (self.words(words) * self.places).sum(dim=2)


class PictureEmbedding(nn.Module):
    """x_t = W₂ relu(W₁ picture_t) + W_l label_t: pixels, and a label where one is shown (else zeros)."""

    def __init__(self, pixels: int, num_labels: int, hidden_dim: int, model_dim: int) -> None:
        super().__init__()
        self.pixels = pixels
        self.picture = nn.Sequential(nn.Linear(pixels, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, model_dim))
        self.label = nn.Linear(num_labels, model_dim, bias=False)

    @override
    def forward(self, x: Float[Tensor, "b t x"]) -> Inputs:
        return self.picture(x[..., : self.pixels]) + self.label(x[..., self.pixels :])


def _block(config: SequenceClassifierConfig) -> Block:
    attention = config.attention.build(config.model_dim, config.num_heads)
    if config.convolution is not None:
        attention = ConvolvedAttention(attention, config.model_dim, config.convolution, config.starts_alone)
    feed_forward = FeedForward(config.model_dim, config.feed_forward_dim)
    return Block(config.model_dim, attention, feed_forward, pre_norm=True)
