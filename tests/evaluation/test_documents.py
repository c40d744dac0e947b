"""Documents sentence by sentence: batches with padding equal single rows without, token by token."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from fastweights.data.document_batches import DocumentBatches
from fastweights.data.translation import TranslationCorpus, open_translation
from fastweights.data.translation_files import Languages
from fastweights.data.translation_tokeniser import END, START, JointBytePairs
from fastweights.evaluation.documents import before_next_sentence, losses_by_place, search_greedily, translate_documents
from fastweights.evaluation.translate import Search, translate
from fastweights.experiments.documents.presets import DECODERS
from fastweights.memory import LayerState
from fastweights.models.translator import Translator, TranslatorConfig
from tiny_translation import write_pairs

DOCUMENT = 2


@pytest.fixture
def corpus(tmp_path: Path) -> TranslationCorpus:
    return open_translation(write_pairs(tmp_path), Languages("en", "de"), JointBytePairs(280), tmp_path / "cache")


@pytest.fixture(params=DECODERS)
def model(request: pytest.FixtureRequest, corpus: TranslationCorpus) -> Translator:
    torch.manual_seed(0)
    decoder = DECODERS[request.param]
    config = TranslatorConfig(len(corpus.tokeniser), 16, 2, 1, 2, 16, decoder_attention=decoder)
    return Translator(config).double().eval()


def one_by_one(
    model: Translator, source: Sequence[int], target: Sequence[int], states: Sequence[LayerState] | None
) -> tuple[float, Sequence[LayerState]]:
    """The loss of one pair, a token at a time and without padding, and the states after it."""
    memories = model.write(model.encode(torch.tensor([[*source, END]])))
    total = 0.0
    for given, wanted in zip([START, *target], [*target, END], strict=True):
        hidden, states = model.decode(torch.tensor([[given]]), memories, states)
        total -= float(model.log_probabilities(hidden)[0, 0, wanted])
    assert states is not None
    return total, before_next_sentence(states)


@pytest.mark.parametrize("carried", [True, False])
@torch.no_grad()
def test_losses_are_those_of_single_tokens(model: Translator, corpus: TranslationCorpus, carried: bool) -> None:
    pairs = corpus.valid
    batches = DocumentBatches(pairs, 2, 100)
    found = losses_by_place(model, batches, DOCUMENT, carried=carried)
    sums, tokens = [0.0] * DOCUMENT, [0] * DOCUMENT
    for row in range(2):
        states: Sequence[LayerState] | None = None
        for number in range(len(batches)):
            place, pair = number % DOCUMENT, row * len(batches) + number
            source, target = pairs.source[pair].tolist(), pairs.target[pair].tolist()
            loss, after = one_by_one(model, source, target, states if place and carried else None)
            states = after
            sums[place] += loss
            tokens[place] += len(target) + 1
    assert found.tokens == tuple(tokens)
    assert found.sums == pytest.approx(sums, rel=1e-12)
    assert found.mean() == pytest.approx(sum(sums) / sum(tokens), rel=1e-12)
    assert found.mean(1, 2) == pytest.approx(sums[1] / tokens[1], rel=1e-12)


def test_memories_matter(model: Translator, corpus: TranslationCorpus) -> None:
    batches = DocumentBatches(corpus.valid, 2, 100)
    carried, alone = (losses_by_place(model, batches, DOCUMENT, carried=carried) for carried in (True, False))
    assert carried.sums[0] == alone.sums[0], "the first sentence of a document has nothing before it"
    assert all(abs(a - b) > 1e-6 for a, b in zip(carried.sums[1:], alone.sums[1:], strict=True))


def test_alone_it_finds_what_translate_finds(model: Translator, corpus: TranslationCorpus) -> None:
    model = model.float()
    found = dict(translate_documents(model, DocumentBatches(corpus.valid, 3, 100), DOCUMENT, carried=False))
    lines = corpus.lines("val")[0]
    expected = [one.text for one in translate(model, corpus.tokeniser, lines, Search(beams=1))]
    assert sorted(found) == list(range(len(lines)))
    assert corpus.tokeniser.decode([found[number] for number in sorted(found)]) == expected


@torch.no_grad()
def test_the_memory_keeps_what_was_written(model: Translator, corpus: TranslationCorpus) -> None:
    """The states after a search are those of reading the same translation, row by row."""
    first, second = list(DocumentBatches(corpus.valid, 3, 100))[:2]
    found, states = search_greedily(model, first, None)
    again, after = search_greedily(model, second, before_next_sentence(states))
    after = before_next_sentence(after)
    for row, (tokens, later) in enumerate(zip(found, again, strict=True)):
        assert tokens[-1] == later[-1] == END
        single: Sequence[LayerState] | None = None
        for batch, translation in ((first, tokens), (second, later)):
            _, single = one_by_one(
                model, batch.source[row][batch.source_mask[row]][:-1].tolist(), translation[:-1], single
            )
        assert single is not None
        for layer, expected in zip(after, single, strict=True):
            for name, tensor in expected.tensors().items():
                torch.testing.assert_close(layer.tensors()[name][row : row + 1], tensor, rtol=1e-12, atol=1e-12)
