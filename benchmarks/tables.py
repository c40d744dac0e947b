"""Tables of a record: every ratio is between times of the same process."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.accelerate import DECODED
from benchmarks.competitors import COMPETITORS
from benchmarks.generation import CONTEXTS, GPT2
from benchmarks.language_models import BOUND, LOW, PEER, TOKENS
from benchmarks.layouts import KINDS
from benchmarks.peers import OURS
from benchmarks.problems import Case
from benchmarks.record import SpeedRecord
from benchmarks.synthetic import CASES
from benchmarks.timing import Json
from benchmarks.translation import LENGTH, PAIRS
from fastweights.experiments.retrieval.evaluation import PROTOCOLS

NOTHING = "–"


class Table(NamedTuple):
    """What is shown, as text."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def markdown(self) -> str:
        """The rows as a Markdown table; numbers to the right."""
        rule = ["---"] + ["---:"] * (len(self.columns) - 1)
        return "\n".join("| " + " | ".join(cells) + " |" for cells in (self.columns, rule, *self.rows)) + "\n"


def best(times: Json, who: str, what: str) -> float | None:
    """Seconds of the best repetition; None if it was not measured."""
    return float(times[who][what]["best"]) if who in times and what in times[who] else None


def milliseconds(seconds: float | None) -> str:
    """Three significant digits."""
    return NOTHING if seconds is None else f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def microseconds(seconds: float | None) -> str:
    """Three significant digits."""
    return milliseconds(None if seconds is None else 1e3 * seconds)


def ratio(slower: float | None, faster: float | None) -> str:
    """How many times as fast."""
    return NOTHING if slower is None or faster is None else f"{slower / faster:.1f} ×"


def share(flop: int, seconds: float | None, peak: float) -> float | None:
    """Per cent of the peak."""
    return None if seconds is None else 100 * flop / seconds / peak


def percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0f} %"


def pair(first: str, second: str) -> str:
    return NOTHING if first == second == NOTHING else f"{first} / {second}"


def operator_row(measured: Json) -> tuple[str, ...]:
    """Sizes, native times, how much of the peak they are, and the other competitors as multiples."""
    case, times = Case(**measured["case"]), measured["times"]
    forward, training, backward = (best(times, "native", what) for what in ("forward", "training", "backward"))
    others = [
        pair(ratio(best(times, name, "forward"), forward), ratio(best(times, name, "training"), training))
        for name in COMPETITORS
        if name != "native"
    ]
    return (
        f"{case.batch}, {case.heads}, {case.steps}, {case.key_dim}, {case.value_dim}",
        str(measured["threads"]),
        f"{measured['gemm'] / 1e9:.0f}",
        pair(milliseconds(forward), milliseconds(training)),
        percent(share(case.forward_flop, forward, measured["gemm"])),
        percent(share(case.backward_flop, backward, measured["gemm"])),
        *others,
    )


OPERATOR_COLUMNS = (
    "b, h, t, k, v",
    "threads",
    "GEMM GFLOP/s",
    "native ms",
    "forward of peak",
    "backward of peak",
    "faster than chunked",
    "than transformers",
    "than SDPA",
)


def operators(record: SpeedRecord) -> Table:
    """Everything about the operator."""
    rows = [operator_row(measured) for measured in record.kind("operator")]
    return Table("The operator: forward / forward + backward", OPERATOR_COLUMNS, rows)


def headline(record: SpeedRecord) -> Table:
    """The operator at t = 1024 on two threads."""
    chosen = [m for m in record.kind("operator") if m["threads"] == 2 and m["case"]["steps"] == 1024]
    columns = tuple(name for name in OPERATOR_COLUMNS if name not in ("threads", "GEMM GFLOP/s"))
    rows = [(row[0], *row[3:]) for row in map(operator_row, chosen)]
    return Table("Forward / forward + backward", columns, rows)


def lengths(record: SpeedRecord) -> Table:
    """Time per token of the native backend, and how far from that of t = 1024."""
    rows = []
    for measured in record.kind("length"):
        for steps in measured["times"]:
            cells: list[str] = []
            for what in ("forward", "training"):
                here, reference = (per_token(measured, n, what) for n in (steps, "1024"))
                off = NOTHING if here is None or reference is None else f"{100 * (here / reference - 1):+.0f} %"
                cells += [microseconds(here), off]
            rows.append((steps, str(measured["threads"]), *cells))
    columns = ("t", "threads", "forward µs per token", "against 1024", "training µs per token", "against 1024")
    return Table("Cost per token by length, native, b = 1, h = 8, k = v = 64", columns, rows)


def per_token(measured: Json, steps: str, what: str) -> float | None:
    """Seconds per token of all sequences."""
    seconds = best(measured["times"], steps, what)
    return None if seconds is None else seconds / (int(steps) * measured["batch"])


def decays(record: SpeedRecord) -> Table:
    """What a decay and lookups cost beside one decay per head, and beside transformers' Kimi Delta Attention."""
    rows = []
    for measured in record.kind("decay"):
        size = Case(**measured["case"]).name
        for who in measured["times"]:
            cells = [
                (best(measured["times"], who, what), best(measured["times"], "per head", what))
                for what in ("forward", "backward", "training")
            ]
            rows.append((size, who, *(milliseconds(time) for time, _ in cells), *(ratio(*cell) for cell in cells)))
    columns = ("b, h, t, k, v", "decay", "forward ms", "backward ms", "both ms", "of per head", "backward", "both")
    return Table("Decay and lookups", columns, rows)


def decoding(record: SpeedRecord) -> Table:
    """Single steps, and the native step against each."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "decoding"):
        native = best(measured["times"], "native step", "step")
        for name in measured["times"]:
            seconds = best(measured["times"], name, "step")
            rows.append((name, microseconds(seconds), ratio(seconds, native)))
    return Table("One step, b = 1, h = 8, k = v = 64, no gradients", ("step", "µs", "native is faster by"), rows)


def shortcuts(record: SpeedRecord) -> Table:
    """What the single-step path and the buffer pool are worth."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "shortcuts"):
        times = measured["times"]
        for name in (who.removesuffix(" with") for who in times if who.endswith(" with")):
            taken, without = (best(times, f"{name} {how}", "call") for how in ("with", "without"))
            rows.append((name, milliseconds(taken), milliseconds(without), ratio(without, taken)))
    return Table("Shortcuts", ("call", "with, ms", "without, ms", "gain"), rows)


def stacks(record: SpeedRecord) -> Table:
    """Training steps of the small Transformer."""
    rows = []
    for measured in record.kind("stack"):
        softmax = best(measured["times"], "softmax", "training")
        for name in measured["times"]:
            seconds = best(measured["times"], name, "training")
            rows.append((name, str(measured["threads"]), milliseconds(seconds), ratio(softmax, seconds)))
    columns = ("attention", "threads", "training step ms", "faster than softmax")
    return Table("A training step: 4 layers, 256 wide, 8 heads, batch 4, t = 1024", columns, rows)


def language_models(record: SpeedRecord) -> Table:
    """Training steps of the language model for CPUs."""
    rows = []
    for measured in record.kind("language-model"):
        times = measured["times"]
        softmax, peer = (best(times, name, "training") for name in ("softmax", PEER))
        for name in times:
            seconds = best(times, name, "training")
            bound = best(times, f"{BOUND}{LOW if name.endswith(LOW) else ''}", "training")
            speed = NOTHING if seconds is None else f"{TOKENS / seconds:,.0f}"
            rows.append(
                (
                    name,
                    str(measured["length"]),
                    str(measured["threads"]),
                    speed,
                    ratio(softmax, seconds),
                    ratio(peer, seconds),
                    NOTHING if bound is None or seconds is None else f"{100 * bound / seconds:.0f} %",
                )
            )
    columns = (
        "attention",
        "L",
        "threads",
        "words per second",
        "faster than softmax",
        "than transformers' rule",
        "of the speed without attention",
    )
    return Table(f"Training the language model for CPUs, {TOKENS} words a step in segments of L", columns, rows)


def generation(record: SpeedRecord) -> Table:
    """Time and memory for the next word, by how many words were read before."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "generation"):
        for name in measured["times"]:
            model, _, context = name.partition(" after ")
            first = best(measured["times"], f"{model} after {CONTEXTS[0]}", "word")
            peer = best(measured["times"], f"{GPT2} after {context}", "word")
            seconds = best(measured["times"], name, "word")
            size = f"{measured['bytes'][name] / 2**10:,.0f}" if measured["bytes"][name] else NOTHING
            cells = (milliseconds(seconds), percent(share_of(seconds, first)), ratio(peer, seconds), size)
            rows.append((model, f"{int(context):,}", *cells))
    after = f"of that after {CONTEXTS[0]}"
    columns = ("attention", "words before", "ms per word", after, "faster than transformers' GPT-2", "state KiB")
    return Table("Generating with the language model for CPUs", columns, rows)


def synthetic(record: SpeedRecord) -> Table:
    """Steps and evaluations of the synthetic experiments."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "synthetic"):
        times = measured["times"]
        for case in CASES:
            step = best(times, f"{case.label}: step", "step")
            evaluations = [best(times, f"{case.label}: {name}", "evaluation") for name in PROTOCOLS]
            if step is not None:
                published = None if case.published is None else case.published / 1e3
                cells = (milliseconds(step), milliseconds(published), ratio(published, step))
                rows.append((case.label, *cells, *map(milliseconds, evaluations)))
    columns = (
        "setting, model, rule, S",
        "step ms",
        "published code's",
        "faster",
        *(f"evaluation ms, {name}" for name in PROTOCOLS),
    )
    return Table("The synthetic experiments, batch 32 (tanh: 128), 2 threads", columns, rows)


def layer_parts(record: SpeedRecord) -> Table:
    """Where the time of a layer goes."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "layer parts"):
        for name in measured["times"]:
            whole = best(measured["times"], f"{name.partition(':')[0]}: whole layer", "training")
            forward, backward, training = (
                best(measured["times"], name, what) for what in ("forward", "backward", "training")
            )
            rows.append((name, milliseconds(forward), milliseconds(backward), percent(share_of(training, whole))))
    return Table("Inside one layer", ("part", "forward ms", "backward ms", "of the layer"), rows)


def feature_maps(record: SpeedRecord) -> Table:
    """Mapping queries and keys, and how it compares with the scan."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "feature maps"):
        times = measured["times"]
        for name in dict.fromkeys(key.partition(":")[0] for key in times):
            cells = []
            for what in ("forward", "training"):
                mapping, scan = best(times, f"{name}: map", what), best(times, f"{name}: scan", what)
                cells += [milliseconds(mapping), milliseconds(scan), percent(share_of(mapping, scan))]
            rows.append((name, *cells))
    parts = [f"{what} {part}" for what in ("forward", "training") for part in ("map ms", "scan ms", "map of scan")]
    title = "Mapping and normalising queries and keys, and the scan over them, b = 4, h = 8, t = 1024, d = v = 64"
    return Table(title, ("map", *parts), rows)


def share_of(part: float | None, whole: float | None) -> float | None:
    return None if part is None or whole is None else 100 * part / whole


def memory(record: SpeedRecord) -> Table:
    """Peak memory on top of the inputs, a row per case and pass, a column per competitor."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for measured in record.kind("memory"):
        case = Case(**measured["case"])
        row = (f"{case.batch}, {case.heads}, {case.steps}", "training" if measured["training"] else "forward")
        cell = f"{measured['bytes'] / 2**20:.0f}" if "bytes" in measured else NOTHING
        found.setdefault(row, {})[measured["competitor"]] = cell
    rows = [(*row, *(cells.get(name, NOTHING) for name in COMPETITORS)) for row, cells in found.items()]
    return Table("Peak memory beyond the inputs in MiB, k = v = 64", ("b, h, t", "pass", *COMPETITORS), rows)


def translation(record: SpeedRecord) -> Table:
    """A training step as a multiple of softmax's, and how many sentences are translated in a second."""
    decoded = {measured["threads"]: measured["sentences"] for measured in record.kind("translation-decoding")}
    rows = []
    for measured in record.kind("translation-training"):
        softmax = best(measured["times"], "standard", "training")
        for name in measured["times"]:
            step = best(measured["times"], name, "training")
            speeds = decoded.get(measured["threads"], {}).get(name, {})
            multiple = NOTHING if step is None or softmax is None else f"{step / softmax:.2f} ×"
            speed = [f"{speeds[beams]:.0f}" if beams in speeds else NOTHING for beams in ("1", "4")]
            rows.append((name, str(measured["threads"]), milliseconds(step), multiple, *speed))
    columns = ("model", "threads", "ms a step", "of softmax", "sentences/s, greedy", "beam 4")
    return Table(f"Translators: a training step of {PAIRS} pairs of {LENGTH} tokens, and decoding", columns, rows)


def documents(record: SpeedRecord) -> Table:
    """Time and memory of a decoder's step by what is behind it."""
    rows = [
        (name, str(measured["threads"]), *(_step_and_size(part) for part in parts.values()))
        for measured in record.kind("translation-decoding")
        for name, parts in measured["document"].items()
    ]
    behind = next((list(parts) for m in record.kind("translation-decoding") for parts in m["document"].values()), [])
    heads = (f"ms a token, kB kept after {count} tokens" for count in behind)
    return Table("Translation of one document, token by token", ("model", "threads", *heads), rows)


def _step_and_size(part: Json) -> str:
    return f"{milliseconds(part['best'])}, {part['bytes'] / 1000:.0f}"


def accelerated(record: SpeedRecord) -> Table:
    """Whole calls of models of transformers, and how many times as fast they are on the operator."""
    rows = []
    for name, measured in record.measurements.items():
        if not name.startswith("accelerate "):
            continue
        model = name.removeprefix("accelerate ").rpartition(" threads")[0]
        times = measured["times"]
        for what in dict.fromkeys(key.rpartition(": ")[0] for key in times):
            tokens = DECODED if what == "decoding" else 1
            stock, ours = (best(times, f"{what}: {who}", "call") for who in ("stock", "accelerated"))
            cells = (milliseconds(None if time is None else time / tokens) for time in (stock, ours))
            gain = NOTHING if stock is None or ours is None else f"{stock / ours:.2f} ×"
            shown = "decoding, per token" if what == "decoding" else what
            rows.append((model, str(measured["threads"]), shown, *cells, gain))
    columns = ("model", "threads", "call", "transformers ms", "accelerated ms", "faster")
    return Table("Models of transformers: 512 wide, 4 layers, batch 1", columns, rows)


def layouts(record: SpeedRecord) -> Table:
    """The operator in the layout of layers, with and without decay, against contiguous tensors without."""
    rows = []
    for measured in record.kind("layout"):
        case, times = Case(**measured["case"]), measured["times"]
        for kind in (kind for kind in KINDS if kind in times):
            forward, backward = (best(times, kind, what) for what in ("forward", "backward"))
            plain = [best(times, "contiguous", what) for what in ("forward", "backward")]
            rows.append(
                (
                    case.name,
                    kind,
                    pair(milliseconds(forward), milliseconds(backward)),
                    percent(share(case.forward_flop, forward, measured["gemm"])),
                    percent(share(case.backward_flop, backward, measured["gemm"])),
                    pair(percent(share_of(forward, plain[0])), percent(share_of(backward, plain[1]))),
                )
            )
    columns = ("sizes", "layout", "forward / backward ms", "forward of peak", "backward of peak", "of contiguous")
    return Table("The operator on what layers hand over (views of b t h ·)", columns, rows)


def peers(record: SpeedRecord) -> Table:
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


def all_tables(record: SpeedRecord) -> Iterable[Table]:
    """Every table that has rows."""
    made = (
        layouts,
        operators,
        lengths,
        decays,
        decoding,
        shortcuts,
        stacks,
        language_models,
        translation,
        documents,
        generation,
        peers,
        accelerated,
        synthetic,
        feature_maps,
        layer_parts,
        memory,
    )
    return [table for make in made if (table := make(record)).rows]
