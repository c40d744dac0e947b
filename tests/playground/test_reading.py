"""A text in a language model: losses, strengths, erasures and occupancy are those of the library's own traces."""

import pytest
import torch

from fastweights.data.text.tokenizers import Vocabulary, Words
from fastweights.evaluation.sampling import Sampling
from fastweights.feature_maps import DPFP
from fastweights.memory import SumNormalisation, record
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.models.language_model import LanguageModel, LanguageModelConfig
from fastweights.playground.reading import MOST_CHARACTERS, MOST_TOKENS, TextReading, continue_text, read_text
from fastweights.update_rules import DeltaRule

SYMBOLS = ("<eos>", "<unk>", "the", "cat", "sat", "on", "mat")
TEXT = "the cat sat on the mat\nthe mat sat"


@pytest.fixture
def model() -> LanguageModel:
    attention = FastWeightAttentionConfig(DPFP(1), DeltaRule(), SumNormalisation(), None)
    config = LanguageModelConfig(
        vocabulary_size=len(SYMBOLS), model_dim=16, num_heads=2, num_layers=2, feed_forward_dim=16, attention=attention
    )
    return LanguageModel(config).eval()


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(Words(), SYMBOLS)


@pytest.fixture
def reading(model: LanguageModel, vocabulary: Vocabulary) -> TextReading:
    return read_text(model, vocabulary, TEXT)


def test_tokens_and_surprise(model: LanguageModel, reading: TextReading) -> None:
    assert reading.symbols == ("the", "cat", "sat", "on", "the", "mat", "<eos>", "the", "mat", "sat")
    tokens = torch.tensor([reading.tokens])
    with torch.inference_mode():
        scores = model.log_probabilities(model(tokens)[0])[0, :-1]
    expected = [-scores[n, token].item() for n, token in enumerate(reading.tokens[1:])]
    assert reading.surprises[0] is None
    assert list(reading.surprises[1:]) == pytest.approx(expected, abs=1e-5)


def test_strengths_and_occupancy_are_those_of_a_recording(model: LanguageModel, reading: TextReading) -> None:
    with torch.inference_mode(), record(model, spectra_every=1) as seen:
        model(torch.tensor([reading.tokens]))
    assert reading.layers == ("layer 0", "layer 1")
    for place, trace in enumerate(seen.values()):
        torch.testing.assert_close(reading.strengths[place], trace["strength"][0], rtol=0, atol=1e-6)
        ranks = [spectrum.effective_rank.mean().item() for spectrum in trace.spectra]
        assert [rank for _, rank in reading.occupancy[place].ranks] == pytest.approx(ranks, abs=1e-5)
        assert reading.occupancy[place].sizes[-1][0] == len(reading.tokens)


def test_erasures_are_of_earlier_tokens_and_strongest_first(reading: TextReading) -> None:
    assert reading.erasures[0] == ()
    assert reading.erasures[-1]
    for place, found in enumerate(reading.erasures):
        shares = [erasure.share for erasure in found]
        assert shares == sorted(shares, reverse=True)
        assert all(0 <= erasure.earlier < place for erasure in found)


def test_the_model_writes_on(model: LanguageModel, vocabulary: Vocabulary, reading: TextReading) -> None:
    written = continue_text(model, vocabulary, reading, 5, Sampling(temperature=0))
    assert written == continue_text(model, vocabulary, reading, 5, Sampling(temperature=0))
    assert set(written.split()) <= {*SYMBOLS}
    with pytest.raises(ValueError, match="length: expected 1 to"):
        continue_text(model, vocabulary, reading, 10_000, Sampling())


def test_another_model_continues_the_text_in_its_own_vocabulary(model: LanguageModel, reading: TextReading) -> None:
    other = Vocabulary(Words(), ("<eos>", "<unk>", *reversed(SYMBOLS[2:])))
    expected = continue_text(model, other, read_text(model, other, TEXT), 5, Sampling(temperature=0))
    assert continue_text(model, other, reading, 5, Sampling(temperature=0)) == expected
    with pytest.raises(ValueError, match="unknown to the model"):
        continue_text(model, Vocabulary(Words(), ("<eos>", "<unk>", "dog")), reading, 5, Sampling())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least two tokens"),
        ("  \n ", "at least two tokens"),
        ("the " * MOST_CHARACTERS, "at most 20,000"),
        ("the " * (MOST_TOKENS + 1), "tokens; at most 1,024"),
        ("colourless green ideas sleep furiously", "unknown to the model"),
        ("the \ud800 cat", "not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_refused(model: LanguageModel, vocabulary: Vocabulary, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_text(model, vocabulary, text)
