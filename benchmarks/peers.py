"""What users would take instead: transformers' gated rule, eager and compiled, attention and recurrence of torch."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.competitors import missing_transformers
from benchmarks.decays import draw, forward, native, train
from benchmarks.gemm import race_with_yardstick
from benchmarks.problems import Case, upstream
from benchmarks.record import SpeedRecord
from benchmarks.table import Table, best, milliseconds, pair, ratio
from benchmarks.timing import Json, Times

OURS, EAGER, COMPILED = "fastweights native, decay", "transformers' gated rule", "transformers' gated rule, compiled"
SDPA = "softmax attention (SDPA)"


@dataclass(frozen=True)
class PeerMeasurement:
    """Forward and training times for sequences as wide as all heads together."""

    case: Case = Case(4, 8, 1024, 64, 64)  # noqa: RUF009  a frozen value
    threads: int = 2
    seconds: float = 1.0

    name = "peers"
    expected_seconds = 150.0

    def run(self) -> Json:
        """Times of all in turns."""
        torch.set_num_threads(self.threads)
        width, gradient = self.case.heads * self.case.value_dim, upstream(self.case)
        x = torch.randn(self.case.batch, self.case.steps, width)
        calls: dict[str, Callable[[], Times]] = {}

        def enter(name: str, call: Callable[..., Tensor], inputs: dict[str, Tensor], from_above: Tensor) -> None:
            calls[f"{name}: forward"] = forward(call, inputs)
            calls[f"{name}: train"] = train(call, inputs, from_above)

        call, _ = native(self.case, "per head")
        enter(OURS, call, draw(self.case, "per head"), gradient)
        missing = missing_transformers()
        if missing is None:
            by_time = {name: y.detach().transpose(1, 2).contiguous() for name, y in draw(self.case, "per head").items()}
            by_time["decay"] = by_time["decay"].log()
            del by_time["erase"]
            inputs = {name: y.requires_grad_() for name, y in by_time.items()}
            from_above = gradient.transpose(1, 2).contiguous()
            enter(EAGER, gated_rule, inputs, from_above)
            enter(COMPILED, torch.compile(gated_rule), inputs, from_above)
        heads = {name: y.detach().requires_grad_() for name, y in draw(self.case, "per head").items()}
        enter(SDPA, attention, {name: heads[name] for name in ("queries", "keys", "values")}, gradient)
        for name, network in (("GRU", nn.GRU), ("LSTM", nn.LSTM)):
            enter(
                f"torch {name}",
                recurrent(network(width, width, batch_first=True)),
                {"x": x.clone().requires_grad_()},
                x,
            )
        for warm_up in calls.values():  # the first call of what is compiled takes half a minute
            warm_up()
        results, yardstick = race_with_yardstick(calls, self.seconds)
        names = list(dict.fromkeys(name.rpartition(":")[0] for name in calls))
        return {
            "case": asdict(self.case),
            "threads": self.threads,
            "missing": {} if missing is None else {EAGER: missing},
            "errors": {},
            "refused": [],
            **yardstick,
            "times": {name: {**results[f"{name}: forward"], **results[f"{name}: train"]} for name in names},
        }


def gated_rule(queries: Tensor, keys: Tensor, values: Tensor, write: Tensor, decay: Tensor) -> Tensor:
    """transformers' chunked gated delta rule in PyTorch; layout b t h ·, logarithms of decays."""
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

    reads: Tensor = torch_chunk_gated_delta_rule(queries, keys, values, decay, write, use_qk_l2norm_in_kernel=False)[0]
    return reads


def attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """PyTorch's causal softmax attention over the same heads."""
    return scaled_dot_product_attention(queries, keys, values, is_causal=True)


def recurrent(network: nn.Module) -> Callable[..., Tensor]:
    """A recurrent network of torch as a function of its inputs."""

    def call(x: Tensor) -> Tensor:
        outputs: Tensor = network(x)[0]
        return outputs

    return call


def table(record: SpeedRecord) -> Table:
    """What users would take instead."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "peers"):
        times = measured["times"]
        for name in times:
            both = [(best(times, name, what), best(times, OURS, what)) for what in ("forward", "training")]
            cells = [milliseconds(seconds) for seconds, _ in both]
            rows.append((name, *cells, pair(*(ratio(seconds, ours) for seconds, ours in both))))
    columns = ("form", "forward ms", "training ms", "native is faster by")
    return Table("Instead of a memory with decay: 4 sequences of 1024 steps, 512 wide (8 heads of 64)", columns, rows)
