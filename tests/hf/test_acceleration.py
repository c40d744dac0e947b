"""Models of transformers on the operator: what they compute with it is what they compute without."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import AutoModelForCausalLM

from fastweights.hf import accelerate
from fastweights.hf.acceleration import ARCHITECTURES
from fastweights.hf.replacements import REPLACEMENTS, RULES
from tiny_models import OPTIONS, tiny_model

VERSION = tuple(int(part) for part in transformers.__version__.split(".")[:2])
SERVED = list(accelerate.status())
"""The architectures that this version of transformers has, with a rule that can be replaced."""

FAMILIES = [name for name in ("qwen3_5", "mamba2", "kimi_linear") if name in SERVED] or SERVED[:1]
"""One architecture for each rule."""

needs_globals = pytest.mark.skipif(VERSION < (5, 15), reason="before 5.15 layers keep their rules, and no packed rows")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(verbosity)


def tokens(batch: int, steps: int) -> Tensor:
    return torch.randint(3, 60, (batch, steps), generator=torch.Generator().manual_seed(steps))


def modelling(architecture: str) -> Any:
    return sys.modules[f"transformers.models.{architecture}.modeling_{architecture}"]


def trained(model: Any, ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The logits, and the gradients of a loss that looks at all of them."""
    model.zero_grad()
    logits = model(ids).logits
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
    (logits * weights).mean().backward()
    return logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, computed in float64."""

    def to(dtype: torch.dtype, x: Any) -> Any:
        return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x

    def doubled(*args: Any, **named: Any) -> Any:
        result = function(*(to(torch.float64, x) for x in args), **{n: to(torch.float64, x) for n, x in named.items()})
        return tuple(to(torch.float32, x) for x in result) if isinstance(result, tuple) else to(torch.float32, result)

    return doubled


def test_every_architecture_of_the_table_has_a_tiny_model() -> None:
    assert sorted(OPTIONS) == sorted(ARCHITECTURES) == list(ARCHITECTURES)
    assert list(ARCHITECTURES) == SERVED or VERSION < (5, 22)


def test_an_architecture_that_this_version_lacks_or_computes_inline_is_refused() -> None:
    assert "qwen3_next" in SERVED
    for name in set(ARCHITECTURES) - set(SERVED):
        with pytest.raises(ValueError, match=f"unknown architecture '{name}'; possible: .*qwen3_next"):
            accelerate(name)


@pytest.mark.parametrize("architecture", SERVED)
def test_logits_and_gradients_are_those_of_stock(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = tiny_model(architecture), tokens(2, 70)
    stock, stock_gradients = trained(model, ids)
    with accelerate(model):
        ours, our_gradients = trained(model, ids)
        for name in RULES & vars(modelling(architecture)).keys():
            monkeypatch.setattr(modelling(architecture), name, in_double(getattr(modelling(architecture), name)))
        _, precise = trained(model, ids)
        monkeypatch.undo()
    assert not torch.equal(ours, stock)
    assert_close(ours, stock, rtol=0, atol=1e-4)
    assert_close(our_gradients, stock_gradients, rtol=1e-4, atol=1e-4)
    gates = [name for name in precise if name.endswith(("A_log", "dt_bias"))]
    assert gates
    for name in gates:
        assert precise[name].abs().max() > 1e-6
        assert_close(our_gradients[name], precise[name], rtol=1e-5, atol=1e-5 * float(precise[name].norm()))


def cached_logits(model: Any, ids: Tensor) -> Tensor:
    """A prefill, single steps, and several steps at once from the cache."""
    parts, cache = [], None
    with torch.no_grad():
        for part in ids.split([20, 1, 1, 1, 17], dim=1):
            name = "cache_params" if model.config.model_type == "mamba2" else "past_key_values"
            out = model(part, use_cache=True, logits_to_keep=0, **{name: cache})
            parts.append(out.logits)
            cache = getattr(out, name)
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("architecture", SERVED)
def test_cached_decoding_is_that_of_stock(architecture: str) -> None:
    model, ids = tiny_model(architecture), tokens(2, 40)
    greedy = {"max_new_tokens": 8, "do_sample": False}
    stock, stock_tokens = cached_logits(model, ids), model.generate(ids[:, :9], **greedy)
    with accelerate(model):
        ours, our_tokens = cached_logits(model, ids), model.generate(ids[:, :9], **greedy)
    assert_close(ours, stock, rtol=0, atol=1e-4)
    assert torch.equal(our_tokens, stock_tokens)


def without_attention(architecture: str) -> Any:
    """The body of a tiny model; all of its layers recurrent where attention would mix packed rows."""
    changes: dict[str, Any] = {}
    if architecture == "granitemoehybrid":
        changes = {"layer_types": ["mamba", "mamba"]}
    if architecture == "glm5_next":
        text = OPTIONS[architecture][2]["text_config"] | {"layer_types": ["linear_attention"] * 2}
        changes = {"text_config": text}
    model = tiny_model(architecture, **changes).train()
    # The head of Mamba-2 does not hand these arguments on.
    return model.backbone if architecture == "mamba2" else model.model


@needs_globals
@pytest.mark.parametrize(
    ("architecture", "how"),
    [*((name, "cu_seq_lens_q") for name in SERVED), *((name, "seq_idx") for name in FAMILIES)],
)
def test_packed_rows_equal_single_ones(architecture: str, how: str) -> None:
    model = without_attention(architecture)
    lengths = [9, 1, 14]
    rows = [tokens(1, length) for length in lengths]
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    index = torch.cat([torch.full((length,), row) for row, length in enumerate(lengths)])[None].int()
    ends = torch.tensor([0, 9, 10, 24], dtype=torch.int32)
    named = {"seq_idx": index} if how == "seq_idx" else {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends}
    with accelerate(model), torch.no_grad():
        packed = model(torch.cat(rows, dim=1), position_ids=positions, use_cache=False, **named)[0]
        single = torch.cat([model(row, use_cache=False)[0] for row in rows], dim=1)
    assert_close(packed, single, rtol=0, atol=1e-4)


@pytest.mark.parametrize("architecture", FAMILIES)
def test_a_model_is_loaded_inside_the_context(architecture: str, tmp_path: Path) -> None:
    model, ids = tiny_model(architecture), tokens(1, 30)
    model.save_pretrained(tmp_path)
    expected = model(ids).logits
    with accelerate(architecture) as acceleration:
        calls = counted_calls(architecture)
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
        found = loaded(ids).logits
        assert calls
        assert accelerate.status(loaded) == {architecture: True}
    assert repr(acceleration) == f"<{architecture}; undone>"
    assert accelerate.status(loaded) == {architecture: False}
    assert_close(found, expected, rtol=0, atol=1e-4)


def counted_calls(architecture: str) -> list[str]:
    """Names of the replacements that are called from now on, until the functions are put back."""
    calls: list[str] = []

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **named: calls.append(name) or function(*args, **named)  # type: ignore[func-returns-value]

    for name in RULES & vars(modelling(architecture)).keys():
        setattr(modelling(architecture), name, counting(name, vars(modelling(architecture))[name]))
    return calls


@pytest.mark.parametrize("architecture", SERVED)
def test_undo_restores_the_stock_functions(architecture: str) -> None:
    model = tiny_model(architecture)
    before = {name: vars(modelling(architecture)).get(name) for name in REPLACEMENTS}
    first, second = accelerate(model), accelerate(architecture)
    assert all(vars(modelling(architecture))[name] is not f for name, f in before.items() if f is not None)
    assert [name for name, f in before.items() if f is None] == [
        name for name in REPLACEMENTS if vars(modelling(architecture)).get(name) is None
    ]
    first.undo()
    first.undo()
    assert accelerate.status()[architecture]
    second.undo()
    assert {name: vars(modelling(architecture)).get(name) for name in REPLACEMENTS} == before
    assert not any(accelerate.status().values())


@needs_globals
def test_it_says_what_it_replaced() -> None:
    with accelerate(tiny_model("mamba2"), "qwen3_5") as acceleration:
        assert repr(acceleration) == "<mamba2: 2 layers, qwen3_5; accelerated>"
        assert repr(accelerate) == "<accelerate; now: mamba2, qwen3_5>"
    assert repr(accelerate) == "<accelerate; now: nothing>"


@needs_globals
def test_what_has_nothing_to_replace_is_refused_with_a_list() -> None:
    with pytest.raises(ValueError, match=r"unknown architecture 'llama'; possible: bailing_hybrid, .*zamba2"):
        accelerate("llama")
    with pytest.raises(ValueError, match=r"Linear has no layer with a rule.*possible: models of bailing_hybrid"):
        accelerate(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"expected a model or a name; possible names: bailing_hybrid"):
        accelerate()
    with pytest.raises(TypeError, match="expected a model or the name of an architecture, got int"):
        accelerate(3)  # type: ignore[arg-type]
    without_rule = tiny_model("bamba").model.layers[1]
    with pytest.raises(ValueError, match="BambaDecoderLayer has no layer with a rule"):
        accelerate(without_rule)
    assert not any(accelerate.status().values())


@needs_globals
def test_layers_that_keep_their_functions_are_served_until_it_is_undone() -> None:
    """As before transformers 5.15, where a layer reads the globals once, when it is built."""
    module = modelling("qwen3_5")
    layer = tiny_model("qwen3_5").model.layers[0].linear_attn
    original = module.torch_chunk_gated_delta_rule
    layer.chunk_gated_delta_rule = original
    q = torch.randn(1, 5, 2, 4)
    arguments = {"g": -torch.rand(1, 5, 2), "beta": torch.rand(1, 5, 2)}
    expected = original(q, q, q, **arguments)[0]
    with accelerate(layer):
        kept = layer.chunk_gated_delta_rule
        assert kept is module.torch_chunk_gated_delta_rule is not original
        found = kept(q, q, q, **arguments)[0]
    assert_close(found, expected)
    assert torch.equal(kept(q, q, q, **arguments)[0], expected)
    assert module.torch_chunk_gated_delta_rule is original


@pytest.mark.slow
@needs_globals
@pytest.mark.parametrize("architecture", ["qwen3_5", "mamba2"])
def test_compiled_into_one_graph_it_gives_the_same_logits(architecture: str) -> None:
    command = [sys.executable, "-W", "error:Dynamo", str(Path(__file__).with_name("compiled_model.py")), architecture]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 1e-5
