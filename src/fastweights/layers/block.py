"""One layer of a Transformer: attention and a feed-forward layer, each with a residual connection and layer norm."""

from typing import TypeVar

from torch import nn
from typing_extensions import override

from fastweights.layers.dropout import Dropout
from fastweights.shapes import Inputs, Mask

State = TypeVar("State")


class Block(nn.Module):
    """post-LN: x ← LN(x + attention(x)), x ← LN(x + ffn(x));   pre-LN: x ← x + attention(LN(x)), x ← x + ffn(LN(x)).

    `attention` is any module with `forward(x, state, mask) -> (y, state)`. Dropout acts on what it returns.
    """

    def __init__(
        self,
        model_dim: int,
        attention: nn.Module,
        feed_forward: nn.Module,
        *,
        pre_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward, self.pre_norm = attention, feed_forward, pre_norm
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(model_dim), nn.LayerNorm(model_dim)
        self.dropout = Dropout(dropout)

    @override
    def forward(self, x: Inputs, state: State | None = None, mask: Mask | None = None) -> tuple[Inputs, State]:
        if self.pre_norm:
            read, after = self.attention(self.attention_norm(x), state, mask)
            x = x + self.dropout(read)
            return x + self.feed_forward(self.feed_forward_norm(x)), after
        read, after = self.attention(x, state, mask)
        x = self.attention_norm(x + self.dropout(read))
        return self.feed_forward_norm(x + self.feed_forward(x)), after
