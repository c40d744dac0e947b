"""The letters of every shape, and the named tensor types built from them.

| letter | what it counts                                    | in the paper        |
|--------|---------------------------------------------------|---------------------|
| b      | sequences of a batch                              |                     |
| h      | heads                                             | H                   |
| t      | time steps                                        | L                   |
| s      | time steps of a source that is attended to        |                     |
| d      | components of a key or query before the map       | d_key               |
| k      | components of a mapped key or query               | d_dot               |
| v      | components of a value                             | d_value             |
| m      | random features of FAVOR+                         | m                   |
"""

from collections.abc import Mapping

from jaxtyping import Bool, Float, Int
from torch import Tensor

Inputs = Float[Tensor, "b t model"]
Mask = Bool[Tensor, "b t"]
Source = Float[Tensor, "b s model"]
SourceMask = Bool[Tensor, "b s"]
Vectors = Float[Tensor, "*batch d"]
Features = Float[Tensor, "*batch k"]
Projection = Float[Tensor, "m d"]

Queries = Float[Tensor, "b h t k"]
Keys = Float[Tensor, "b h t k"]
Values = Float[Tensor, "b h t v"]
PerStep = Float[Tensor, "b h t"]
PerKey = Float[Tensor, "b h t k"]
"""One number per step, or one for each component of the mapped key."""

PerValue = Float[Tensor, "b h t v"]

Key = Float[Tensor, "b h k"]
Value = Float[Tensor, "b h v"]
PerHead = Float[Tensor, "b h"]

Gates = Mapping[str, Float[Tensor, "b h t ..."]]
"""What a rule asks for at every step, by name: one number per head, or one for each component of the mapped key."""

StepGates = Mapping[str, Float[Tensor, "b h ..."]]
"""The gates of a single step."""

Weights = Float[Tensor, "b h v k"]
"""The fast weights W, with W @ key = value as in the paper."""

KeptWeights = Float[Tensor, "b h n v k"]
"""The weights after some steps."""

Normaliser = Float[Tensor, "b h k"]
"""The accumulator z of attention normalisation."""

Places = Int[Tensor, "b t"]
"""How many steps of its own sequence each step has before it."""

Steps = Int[Tensor, " b"]
