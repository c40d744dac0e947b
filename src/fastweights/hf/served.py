"""Which calls of transformers' functions are served here, and what their arguments say about packed rows."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

Function = Callable[..., Any]


def serves(x: Tensor) -> bool:
    """Whether a call with such a tensor is ours."""
    return x.device.type == "cpu" and x.dtype.is_floating_point and not torch.compiler.is_exporting()


def beginnings(others: dict[str, Any], x: Tensor, steps: int) -> Tensor | None:
    """True where a sequence of a packed row begins, `b t`; None if the rows are not packed."""
    index = others.get("seq_idx")
    if index is not None:
        return pad(index[:, 1:] != index[:, :-1], (1, 0), value=True)
    ends = others.get("cu_seqlens")
    ends = others.get("cu_seq_lens_q") if ends is None else ends
    if ends is None:
        return None
    marks = torch.zeros(steps + 1, dtype=torch.bool, device=x.device)
    return marks.index_fill(0, ends.to(x.device).long(), True)[None, :steps]
