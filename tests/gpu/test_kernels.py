"""On a GPU: the same problems as in the interpreter, models, and speed beside others; skipped without one."""

import time
from collections.abc import Callable

import pytest
import torch
from drawn_scans import assert_agrees, drawn
from operator_inputs import draw
from torch import Tensor

from fastweights import fast_weight_scan
from fastweights.models.language_model import LanguageModel, LanguageModelConfig

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no NVIDIA or AMD GPU")


@pytest.mark.parametrize("seed", range(100))
def test_the_kernels_agree_with_the_equation(seed: int) -> None:
    assert_agrees(drawn(seed), device="cuda")


@pytest.mark.parametrize("compiled", [False, True])
def test_a_language_model_learns_what_the_cpu_learns(compiled: bool) -> None:
    torch.manual_seed(0)
    config = LanguageModelConfig(50, model_dim=32, num_heads=2, num_layers=2, feed_forward_dim=64, dropout=0.0)
    model, tokens = LanguageModel(config), torch.randint(50, (3, 70))
    losses = []
    for device in ("cpu", "cuda"):
        model.to(device).zero_grad()
        run = torch.compile(model) if compiled and device == "cuda" else model
        hidden, _ = run(tokens.to(device))
        loss = model.losses(hidden, tokens.to(device)).mean()
        loss.backward()
        losses.append((loss.item(), *(p.grad.norm().item() for p in model.parameters() if p.grad is not None)))
    torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=1e-3, atol=1e-5)


def test_a_step_makes_no_host_wait() -> None:
    tensors = {name: x.cuda() for name, x in draw(0, steps=64, key_dim=32, value_dim=32, dtype=torch.float32).items()}
    fast_weight_scan(**tensors)
    torch.cuda.set_sync_debug_mode("error")
    try:
        keys = tensors["keys"].requires_grad_()
        reads, _ = fast_weight_scan(**tensors)
        torch.autograd.grad(reads.sum(), keys)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def milliseconds(run: Callable[[], object]) -> float:
    """The shortest of some repetitions, compilation not counted."""
    run()
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


@pytest.mark.parametrize(
    ("b", "h", "t", "k", "v"), [(96, 8, 256, 32, 16), (8, 16, 2048, 128, 128), (8, 8, 2048, 384, 64)]
)
def test_speed_beside_others(b: int, h: int, t: int, k: int, v: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints times and asserts nothing about them."""
    tensors = {name: x.cuda() for name, x in draw(0, b, h, t, k, v, torch.bfloat16).items()}
    leaves = [x.requires_grad_() for x in tensors.values()]

    def both(forward: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: forward().sum().backward(inputs=leaves[:3])

    def attention() -> Tensor:
        q, x = tensors["queries"], tensors["keys"]
        return torch.nn.functional.scaled_dot_product_attention(q, x, tensors["values"], is_causal=True)

    runs: dict[str, Callable[[], Tensor]] = {
        "triton": lambda: fast_weight_scan(**tensors, backend="triton")[0],
        "chunked": lambda: fast_weight_scan(**tensors, backend="chunked")[0],
        "SDPA": attention,
    }
    if k <= 256 and (fla := fla_rule(tensors)) is not None:
        runs["fla"] = fla
    found = []
    for name, forward in runs.items():
        found.append(f"{name} {milliseconds(forward):.2f} / {milliseconds(both(forward)):.2f} ms")
    with capsys.disabled():
        print(f"\n{torch.cuda.get_device_name()}, b {b} h {h} t {t} k {k} v {v}, bfloat16: {', '.join(found)}")


def fla_rule(tensors: dict[str, Tensor]) -> Callable[[], Tensor] | None:
    """flash-linear-attention's gated delta rule on the same tensors, which it wants time first; None without it."""
    try:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    except ImportError:
        return None
    q, k, v, write, decay = (tensors[name].transpose(1, 2) for name in ("queries", "keys", "values", "write", "decay"))
    return lambda: chunk_gated_delta_rule(q, k, v, decay.float().log(), write, output_final_state=True)[0]
