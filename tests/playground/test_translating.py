"""What a translator takes from where: the weights rebuild the reads, and the hypotheses are those of the search."""

from dataclasses import replace

import pytest
import torch

from fastweights.data.translation_tokeniser import END, START, JointBytePairs
from fastweights.layers.attention.cross import FastWeightCrossAttention
from fastweights.memory import Observation, observe
from fastweights.memory.traced_writes import writes_by_scan
from fastweights.memory.whole_sequence import read_memory
from fastweights.models.translator import Translator
from fastweights.playground.translating import MOST_BEAMS, pieces, read_weights, source_reads, translate_sentence
from fastweights.update_rules import LinearRule
from translators import TRANSLATORS, translator

TOKENISER = JointBytePairs(300).fit(["two dogs run", "Zwei Hunde laufen", "a cat", "eine Katze"] * 3)


@pytest.mark.parametrize("name", ["linear", "delta", "delta-attention-normalised"])
def test_the_weights_rebuild_what_is_read(name: str) -> None:
    model = translator(name, torch.float64)
    layer = model.decoder[0].cross_attention
    assert isinstance(layer, FastWeightCrossAttention)
    seen: list[Observation] = []
    with torch.inference_mode(), observe(model, lambda _: seen.append):
        memory = model.write(model.encode(torch.tensor([[5, 6, 7, 8, END]])))[0]
        queries = layer.queries(torch.randn(1, 3, 16, dtype=torch.float64))
    written = seen[0 - len(model.decoder)]
    attention = written.attention_normalisation
    expected = read_memory(layer.update_rule, memory, queries, attention)[0]
    rule = layer.update_rule
    rule = rule.with_attention_normalisation() if attention is not None and attention.retrieval else rule
    assert isinstance(rule, LinearRule)
    added = writes_by_scan(rule, written.writes, written.before, "auto", []).change[0]
    weights = read_weights(written, queries)
    assert weights is not None
    assert weights.shape == (2, 3, 5)
    torch.testing.assert_close(weights @ added, expected, rtol=0, atol=1e-9)


def test_layers_without_a_linear_memory_are_left_out() -> None:
    assert source_reads(translator("softmax"), [5, END], [6, END]) == []
    assert source_reads(translator("schlag2021"), [5, END], [6, END]) == []
    assert [found.layer for found in source_reads(translator("dpfp2"), [5, END], [6, END])] == ["layer 0", "layer 1"]


def test_reads_are_those_of_the_target_that_is_given() -> None:
    model = translator("linear")
    short, long = (source_reads(model, [5, 6, END], target)[0].weights for target in ([7, END], [7, 9, END]))
    assert long.shape == (2, 3, 3)
    torch.testing.assert_close(long[:, :2], short, rtol=0, atol=1e-6)


def test_pieces_can_be_seen() -> None:
    tokens = [*TOKENISER.encode(["a cat"])[0], END]
    assert pieces(TOKENISER, tokens)[-1] == "</s>"
    assert "".join(pieces(TOKENISER, tokens)[:-1]).replace("␣", "").replace(" ", "") == "acat"


@pytest.mark.slow
def test_a_sentence() -> None:
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = Translator(replace(TRANSLATORS["linear"], vocabulary_size=len(TOKENISER))).eval()
    found = translate_sentence(model, TOKENISER, " two\n dogs ", 3)
    assert len(found.found) == 3
    assert found.source[-1] == "</s>"
    assert found.reads[0].weights.shape == (2, len(found.target), len(found.source))
    inputs = torch.tensor([[START, *TOKENISER.encode(["x"])[0]]])
    assert model(inputs, inputs).shape[-1] == 16, "the model is as it was"


@pytest.mark.parametrize(
    ("sentence", "beams", "message"),
    [
        ("", 2, "nothing to translate"),
        ("x" * 2000, 2, "at most 1,000"),
        ("two dogs", MOST_BEAMS + 1, "beams: expected"),
    ],
)
def test_what_cannot_be_translated_is_refused(sentence: str, beams: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        translate_sentence(translator("linear"), TOKENISER, sentence, beams)
