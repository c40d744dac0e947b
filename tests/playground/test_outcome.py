"""What the page shows of a memory is what the definition of its rule gives, write by write."""

from dataclasses import replace

import pytest
import torch

from fastweights.feature_maps import DPFP, Identity
from fastweights.memory import L2Normalisation
from fastweights.playground.choices import NORMALISED, PLAYED_MAPS, PLAYED_RULES, MemoryChoice
from fastweights.playground.keys import COLOURS, colour_keys
from fastweights.playground.outcome import gates_of, outcome
from fastweights.playground.pictures import PIXELS, named
from fastweights.playground.session import Session, Write

WRITES = (
    Write("red", named("heart"), 1.0, 1.0),
    Write("blue", named("drop"), 0.7, 0.9),
    Write("red", named("fish"), 0.6, 0.8),
)
SESSION = Session(similarity=0.3, writes=WRITES, now=3)


def by_definition(choice: MemoryChoice, session: Session) -> torch.Tensor:
    """W after all writes, by the `step` of the rule in a loop; z is the sum of the keys."""
    rule = choice.update_rule
    rule = rule.with_attention_normalisation() if choice.attention_normalisation else rule
    keys = NORMALISED[choice.normalisation](PLAYED_MAPS[choice.feature_map](colour_keys(session.similarity)))
    weights = torch.zeros(1, 1, PIXELS, keys.shape[-1], dtype=torch.float64)
    z = torch.zeros(1, 1, keys.shape[-1], dtype=torch.float64)
    for write in session.past:
        key = keys[:, :, list(COLOURS).index(write.key)]
        value = torch.tensor(write.picture, dtype=torch.float64)[None, None]
        one = torch.ones(1, 1, 1, dtype=torch.float64)
        gates = gates_of(rule, write.strength * one, write.decay * one, keys.shape[-1], PIXELS)
        weights = rule.step(weights, key, value, {name: gate[:, :, 0] for name, gate in gates.items()}, z)
        z = z + key
    return weights[0, 0]


@pytest.mark.parametrize("rule", PLAYED_RULES)
@pytest.mark.parametrize("normalisation", ["l2", "attention"])
def test_weights_and_change_are_those_of_the_rule(rule: str, normalisation: str) -> None:
    choice = MemoryChoice(rule, "dpfp-1", normalisation)
    found = outcome(SESSION, choice)
    expected = by_definition(choice, SESSION)
    torch.testing.assert_close(found.weights, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.change, expected - by_definition(choice, SESSION.back()), rtol=0, atol=1e-12)


def test_reads_errors_and_numbers_of_the_delta_rule_by_hand() -> None:
    found = outcome(SESSION.back(), MemoryChoice("delta", "identity", "l2"))
    red, blue = (colour_keys(0.3)[0, 0, list(COLOURS).index(key)] for key in ("red", "blue"))
    heart, drop = (torch.tensor(named(name), dtype=torch.float64) for name in ("heart", "drop"))
    weights = torch.outer(heart, red)
    weights = weights + 0.7 * torch.outer(drop - weights @ blue, blue)
    torch.testing.assert_close(found.reads["red"], weights @ red, rtol=0, atol=1e-12)
    error = float((weights @ blue - drop).norm() / drop.norm())
    assert found.errors["blue"] == pytest.approx(error, abs=1e-12)
    assert set(found.errors) == {"red", "blue"}
    assert found.landing == pytest.approx(1.0, abs=1e-12)
    assert found.balance is None  # the keys have components of either sign
    assert found.crosstalk == pytest.approx(0.3, abs=1e-12)
    singular = torch.linalg.svdvals(weights)
    torch.testing.assert_close(torch.tensor(found.singular_values, dtype=torch.float64), singular, rtol=0, atol=1e-5)


def test_the_balance_of_keys_that_are_nowhere_negative() -> None:
    blue = DPFP(1)(colour_keys(0.3))[0, 0, list(COLOURS).index("blue")]
    found = outcome(SESSION.back(), MemoryChoice("delta", "dpfp-1", "l2"))
    assert found.balance == pytest.approx(float((blue / blue.norm()).sum()), abs=1e-12)


def test_the_rules_differ_where_a_key_was_overwritten() -> None:
    session = Session(writes=(WRITES[0], replace(WRITES[2], strength=1.0, decay=1.0)), now=2)
    both, last = (outcome(session, choice) for choice in session.memories)
    heart, fish = (torch.tensor(named(name), dtype=torch.float64) for name in ("heart", "fish"))
    torch.testing.assert_close(both.reads["red"], heart + fish, rtol=0, atol=1e-12)
    torch.testing.assert_close(last.reads["red"], fish, rtol=0, atol=1e-12)


def test_an_empty_memory_has_no_numbers_yet() -> None:
    found = outcome(Session(), MemoryChoice())
    assert found.weights.count_nonzero() == found.change.count_nonzero() == 0
    assert (found.landing, found.balance, found.effective_rank, found.singular_values) == (None, None, None, ())
    assert found.errors == {}


def test_keys_are_mapped_and_normalised_as_the_choice_says() -> None:
    session = Session(writes=WRITES[:1], now=1)
    keys = L2Normalisation()(DPFP(1)(colour_keys(0.0)))[0, 0]
    found = outcome(session, MemoryChoice("sum", "dpfp-1", "l2"))
    heart = torch.tensor(named("heart"), dtype=torch.float64)
    torch.testing.assert_close(found.reads["brown"], heart * (keys[0] @ keys[-1]), rtol=0, atol=1e-12)
    assert Identity()(colour_keys(0.0)).shape[-1] == found.weights.shape[1] // 2
