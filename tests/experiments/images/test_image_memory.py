"""Pictures in an untrained memory: against a loop over the equations, and what should come back."""

import pytest
import torch
from torch.testing import assert_close

from fastweights.data.images import drawn_digits
from fastweights.experiments.contenders import CONTENDERS
from fastweights.experiments.images.image_memory import (
    Recalled,
    can_be_untrained,
    decode,
    encode,
    measure_memory,
    recall,
)
from fastweights.feature_maps import DPFP
from fastweights.models.attention import FastWeightAttentionConfig

PICTURES = torch.from_numpy(drawn_digits(40, 1, side=8).pixels)


def memory(name: str) -> FastWeightAttentionConfig:
    attention = CONTENDERS[name]
    assert isinstance(attention, FastWeightAttentionConfig)
    return attention


@pytest.mark.parametrize("name", ["sum", "delta-attention", "delta", "nlms", "delta-l2", "delta-centred"])
def test_one_key_alone_retrieves_what_was_written_last_if_its_write_lands(name: str) -> None:
    recalled = recall(memory(name), DPFP(1), PICTURES, keys=1, writes=3, seed=1)
    lands = name in ("nlms", "delta-l2", "delta-centred")
    assert (recalled.error < 1e-9) == lands


def test_the_sum_rule_retrieves_the_mean_of_what_one_key_was_given() -> None:
    once = recall(memory("sum"), DPFP(1), PICTURES, keys=1, writes=1, seed=1)
    assert_close(once.retrieved, once.stored)
    twice = recall(memory("sum"), DPFP(1), PICTURES, keys=1, writes=2, seed=1)
    assert twice.error > 0.1


def test_every_memory_is_asked_for_the_same_pictures() -> None:
    one, two = (recall(memory(name), DPFP(1), PICTURES, 8, 16, seed=3) for name in ("sum", "delta-l2"))
    assert_close(one.stored, two.stored)
    assert not recall(memory("sum"), DPFP(1), PICTURES, 8, 16, seed=4).stored.equal(one.stored)


def test_the_error_of_the_mean_picture_is_one() -> None:
    stored = torch.rand(2, 5, 9)
    mean = stored.mean(dim=(0, 1)).expand_as(stored)
    assert Recalled(stored, mean).error == pytest.approx(1.0)
    assert Recalled(stored, stored).error == 0.0


def test_writes_that_land_keep_pictures_and_centring_keeps_more() -> None:
    errors = {
        name: measure_memory(memory(name), PICTURES, 1, sizes=(8,))["errors"]
        for name in CONTENDERS
        if name in ("sum", "delta", "delta-l2", "delta-centred")
    }
    dpfp = {name: found["dpfp"]["8"]["8"] for name, found in errors.items()}
    assert dpfp["delta-centred"] < dpfp["delta-l2"] < 0.5 * min(dpfp["sum"], dpfp["delta"])
    assert errors["delta-centred"]["elu"]["8"]["8"] < 0.5 * errors["delta-l2"]["elu"]["8"]["8"]


def test_pictures_are_kept_as_text() -> None:
    pictures = torch.rand(3, 16)
    for picture, read in zip(pictures, decode(encode(pictures)), strict=True):
        assert read.shape == (4, 4)
        assert_close(torch.from_numpy(read).flatten().float(), picture, rtol=0, atol=0.5 / 255 + 1e-6)
    assert decode(encode(torch.tensor([[-1.0, 2.0, 0.0, 1.0]])))[0].tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert decode([]) == []


def test_gates_that_have_to_be_learned_rule_a_memory_out() -> None:
    assert [name for name in CONTENDERS if not can_be_untrained(CONTENDERS[name])] == [
        "softmax",
        "gated-delta",
        "kimi-delta",
    ]
