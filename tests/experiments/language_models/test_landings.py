"""Writes of a language model: medians of what its layers' traces hold."""

import numpy as np
import pytest

from fastweights.experiments.language_models.landings import measured_writes
from fastweights.memory import CentredL2, L2Normalisation, Normalisation, SumNormalisation
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig


@pytest.mark.parametrize(
    ("normalisation", "lands", "balances"),
    [(SumNormalisation(), False, True), (L2Normalisation(), True, False), (CentredL2(), True, None)],
    ids=str,
)
def test_writes_land_and_balance_as_their_normalisation_says(
    normalisation: Normalisation, lands: bool, balances: bool | None
) -> None:
    attention = FastWeightAttentionConfig(normalisation=normalisation)
    model = LanguageModel(LanguageModelConfig(11, 16, 2, 2, 8, attention, cutoffs=())).train()
    writes = measured_writes(model, np.arange(90, dtype=np.uint16) % 11)
    assert (writes["landing"] == pytest.approx(1, abs=1e-4)) == lands
    assert (None if writes["balance"] is None else writes["balance"] == pytest.approx(1, abs=1e-4)) == balances
