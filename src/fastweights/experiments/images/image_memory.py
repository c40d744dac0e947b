"""Pictures as values of a memory that nothing has trained: what S random keys retrieve after L writes."""

import base64
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fastweights.feature_maps import DPFP, EluPlusOne, FeatureMap
from fastweights.files import Json
from fastweights.memory import FastWeightState, WriteInputs, run_rule
from fastweights.models.attention import AttentionConfig, FastWeightAttentionConfig

KEY_DIM = 64
SIZES = (8, 32, 96)
"""Numbers of keys."""
LENGTHS = (1, 2, 8)
"""Numbers of writes, as multiples of that of the keys."""
REPEATS = 4
SHOWN = (8, 2)
"""Keys, and writes per key, of the pictures that are kept for a figure."""
KEY_MAPS: dict[str, FeatureMap] = {"dpfp": DPFP(1), "elu": EluPlusOne()}

Pictures = Float[Tensor, "b s pixels"]


class Recalled(NamedTuple):
    """What was written last under every key, and what it retrieves."""

    stored: Pictures
    retrieved: Pictures

    @property
    def error(self) -> float:
        """Σ |retrieved - stored|² / Σ |stored - mean picture|²: 1 is what the mean picture would have."""
        mean = self.stored.mean(dim=(0, 1))
        return float((self.retrieved - self.stored).square().sum() / (self.stored - mean).square().sum())


def can_be_untrained(attention: AttentionConfig) -> bool:
    """Whether the rule has no gate but β, which can be set to 1."""
    return isinstance(attention, FastWeightAttentionConfig) and all(
        gate.label == "beta" for gate in attention.update_rule.gates
    )


def recall(
    attention: FastWeightAttentionConfig,
    feature_map: FeatureMap,
    pictures: Float[Tensor, "n pixels"],
    keys: int,
    writes: int,
    seed: int,
) -> Recalled:
    """Write random pictures under random keys at full strength, each key at least once, and read all keys."""
    random = np.random.default_rng((seed, keys, writes))
    vectors = torch.from_numpy(random.standard_normal((REPEATS, 1, keys, KEY_DIM)).astype(np.float32))
    first = np.stack([random.permutation(keys) for _ in range(REPEATS)])
    order = torch.from_numpy(np.concatenate([first, random.integers(keys, size=(REPEATS, writes - keys))], axis=1))
    values = pictures[torch.from_numpy(random.integers(len(pictures), size=(REPEATS, writes)))]
    features = attention.normalisation(feature_map(vectors))
    written = features.gather(2, order[:, None, :, None].expand(-1, -1, -1, features.shape[-1]))
    state = FastWeightState.zeros(
        REPEATS, 1, pictures.shape[1], features.shape[-1], normaliser=attention.attention_normalisation is not None
    )
    strength = {"beta": torch.ones(REPEATS, 1, writes)}
    retrieved, _ = run_rule(
        attention.update_rule,
        WriteInputs(written, values[:, None], strength),
        features,
        state,
        attention_normalisation=attention.attention_normalisation,
        causal=False,
    )
    last = torch.zeros(REPEATS, keys, dtype=torch.int64).scatter_reduce(
        1, order, torch.arange(writes).expand(REPEATS, -1), reduce="amax"
    )
    stored = values.gather(1, last[..., None].expand(-1, -1, values.shape[-1]))
    return Recalled(stored, retrieved[:, 0])


def measure_memory(
    attention: FastWeightAttentionConfig, pictures: Float[Tensor, "n pixels"], seed: int, sizes: Sequence[int] = SIZES
) -> Json:
    """Errors by map, keys and writes per key; and the first pictures of one of these memories, stored and retrieved."""
    errors = {
        name: {
            str(keys): {
                str(length): recall(attention, feature_map, pictures, keys, length * keys, seed).error
                for length in LENGTHS
            }
            for keys in sizes
        }
        for name, feature_map in KEY_MAPS.items()
    }
    keys, length = SHOWN
    shown = recall(attention, KEY_MAPS["dpfp"], pictures, keys, length * keys, seed)
    return {"errors": errors, "stored": encode(shown.stored[0]), "retrieved": encode(shown.retrieved[0])}


def encode(pictures: Float[Tensor, "s pixels"]) -> list[str]:
    """Pictures as text, with 256 levels; what is darker or brighter than any picture is cut off."""
    levels = (pictures.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    return [base64.b64encode(picture.tobytes()).decode("ascii") for picture in levels]


def decode(texts: Sequence[str]) -> list[np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """The square pictures of such texts, from 0 to 1."""
    flat = [np.frombuffer(base64.b64decode(text), dtype=np.uint8) / 255 for text in texts]
    side = round(len(flat[0]) ** 0.5) if flat else 0
    return [picture.reshape(side, side) for picture in flat]
