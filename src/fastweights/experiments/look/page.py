"""The page of a look into a model: its figures and its tables."""

import math
from collections import Counter
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.look.looking import Looked, Window
from fastweights.memory import QUANTITIES
from fastweights.reporting import BLUE, ORANGE, Drawing, LookPage, Table, draw, draw_traces, layer_label

SHOWN = ("strength", "landing", "balance", "error_before", "error_after", "contrast", "eigenvalue", "write", "remove")
"""Quantities that the page can colour the tokens of the window by."""
OVERWRITES, TOKENS_SHOWN, LEAST_OCCURRENCES = 12, 8, 5


def page_of(looked: Looked) -> LookPage:
    """Everything on one page."""
    subject = looked.subject
    carried, reset = (perplexity_of(float(losses.mean())) for losses in (looked.carried, looked.reset))
    memory = "carried over the whole text" if looked.reach is None else f"reset every {looked.reach:,} tokens"
    facts = (
        f"{len(subject.tokens):,} {subject.unit}s of {subject.text}; memory {memory}.",
        f"Perplexity {number(carried)}; {number(reset)} with the memory reset every {subject.segment_length} "
        f"{subject.unit}s.",
    )
    return LookPage(
        f"What the memories of {subject.name} do",
        facts,
        drawings(looked),
        (positions_table(looked), strengths_table(looked), overwrites_table(looked.window), head_table(looked)),
        window_data(looked.window),
    )


def drawings(looked: Looked) -> tuple[Drawing, ...]:
    """All figures of the page."""
    return *draw_traces(looked.traces), by_position(looked)


def by_position(looked: Looked) -> Drawing:
    """Perplexity of stretches of the text with the memory carried on and with it reset."""
    rows = looked.perplexities()

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        places = range(len(rows))
        for shift, colour, column, label in ((-0.2, BLUE, 2, "memory carried on"), (0.2, ORANGE, 3, "memory reset")):
            bars = axes.bar([p + shift for p in places], [row[column] for row in rows], 0.38, color=colour, label=label)
            axes.bar_label(bars, fmt=number, fontsize=8.5, padding=2)
        axes.set_xticks(list(places), [f"{a:,}-{b:,}" for a, b, *_ in rows])
        axes.set(xlabel=f"{looked.subject.unit}s of the text", ylabel="perplexity")
        axes.margins(y=0.15)
        axes.grid(visible=False, axis="x")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)

    length = looked.subject.segment_length
    return Drawing(
        "positions",
        draw(9.6, 3.7, fill),
        f"Perplexity by position. Reset: the memory starts anew after every {length} {looked.subject.unit}s, so the "
        "difference is what the memory knows of the text before, or what it suffers from it.",
        "Perplexity of stretches of the text with the memory carried on and with it reset.",
    )


def summary_table(looked: Looked) -> Table:
    """One row for every layer: what its writes do, and what its memory looks like at the end."""
    rows = []
    for name, trace in looked.traces.items():
        numbers = [trace.mean("strength"), trace.median("landing"), trace.median_balance()]
        errors = [digits(trace.mean(x)) for x in ("error_before", "error_after")]
        rest = [trace.final.effective_rank, trace.key_statistics.crosstalk, trace.key_statistics.dead]
        rows.append((layer_label(name), *map(digits, numbers), " → ".join(errors), *map(digits, rest)))
    return Table(
        "look",
        "Layers: means over all writes and heads; λ and B are medians.",
        ("layer", "β", "λ", "B", "error before → after", "rank", "cosine of keys", "dead features"),
        tuple(rows),
    )


def head_table(looked: Looked) -> Table:
    """One row for every head."""
    rows = []
    for name, trace in looked.traces.items():
        ranks = trace.final.effective_rank.mean(dim=0)
        columns = [trace.mean("strength"), trace.median("landing"), trace.median_balance(), trace.mean("error_before")]
        columns += [trace.mean("error_after"), trace.mean("weights"), ranks]
        columns += [trace.key_statistics.crosstalk, trace.key_statistics.dead]
        for head in range(len(ranks)):
            rows.append((layer_label(name), str(head), *(digits(column[head]) for column in columns)))
    heads = ("layer", "head", "β", "λ", "B", "error before", "error after", "|W|", "rank", "cosine of keys", "dead")
    return Table("heads", "Every head; λ and B are medians, the rest means.", heads, tuple(rows))


def positions_table(looked: Looked) -> Table:
    """Perplexity by position."""
    rows = tuple(
        (f"{a:,}-{b:,}", number(x), number(y), f"{round(x / y - 1, 3) + 0.0:+.1%}")  # + 0.0: no minus before a zero
        for a, b, x, y in looked.perplexities()
    )
    heads = (f"{looked.subject.unit}s", "memory carried on", "memory reset", "difference")
    return Table("positions", "Perplexity by position.", heads, rows)


def strengths_table(looked: Looked) -> Table:
    """The tokens with the largest and the smallest write strength, mean over layers and heads, of those that recur."""
    subject, sums, counts = looked.subject, Counter[int](), Counter[int]()
    for trace in looked.traces.values():
        per_token = trace.steps // (len(subject.tokens) - 1)
        strengths = trace["strength"].mean(dim=(0, 1)).tolist()
        for write, strength in zip(trace.writes.tolist(), strengths, strict=True):
            token = int(subject.tokens[write // per_token])
            sums[token] += strength
            counts[token] += 1
    least = LEAST_OCCURRENCES * len(looked.traces)
    means = {token: sums[token] / counts[token] for token in counts if counts[token] >= least}
    ordered = sorted(means, key=lambda token: means[token])
    pairs = list(zip(ordered[::-1], ordered, strict=True))[: min(TOKENS_SHOWN, len(ordered) // 2)]
    rows = tuple(
        tuple(cell for token in pair for cell in (subject.symbol(token).strip() or "␣", f"{means[token]:.3f}"))
        for pair in pairs
    )
    columns = ("largest β", "mean β", "smallest β", "mean β")
    return Table("strengths", f"Write strength by token, of those that come {LEAST_OCCURRENCES} times.", columns, rows)


def overwrites_table(window: Window) -> Table:
    """The tokens that erased most of what an earlier one had written, each with the one that it erased most of."""
    best: dict[int, tuple[float, int, str, int]] = {}
    for name, found in window.influences.items():
        if found is None:
            continue
        count = found.erased.shape[2] // len(window.symbols)
        weights, heads = found.erased[0].max(dim=0)
        strongest, earlier = weights.max(dim=-1)
        for t, (weight, s) in enumerate(zip(strongest.tolist(), earlier.tolist(), strict=True)):
            entry = (weight, s // count, layer_label(name), int(heads[t, s]))
            best[t // count] = max(entry, best.get(t // count, (0.0, 0, "", 0)))
    ordered = sorted(best.items(), key=lambda item: -item[1][0])[:OVERWRITES]
    rows = tuple(
        (shown(window, t), shown(window, s), f"{weight:.2f}", layer, str(head))
        for t, (weight, s, layer, head) in ordered
        if weight > 0
    )
    columns = ("token", "erased what this one wrote", "share", "layer", "head")
    return Table("overwrites", "The strongest erasures in the window.", columns, rows)


def shown(window: Window, place: int) -> str:
    """A token of the window with its position."""
    return f"{window.symbols[place].strip() or '␣'} ({window.first + place:,})"


def window_data(window: Window) -> dict[str, Any]:
    """Data for the script of the page: tokens of the window, their traces, and which write erased or read which."""
    layers, per_token = [], 1
    for name, trace in window.traces.items():
        per_token = trace["strength"].shape[2] // len(window.symbols)
        found = window.influences.get(name)
        quantities = {quantity: plain(trace[quantity][0]) for quantity in SHOWN}
        views = {} if found is None else {"erased": plain(found.erased[0]), "read": plain(found.read[0])}
        layers.append({"name": layer_label(name), "quantities": quantities, "views": views})
    return {
        "first": window.first,
        "per_token": per_token,
        "tokens": [symbol for symbol in window.symbols for _ in range(per_token)],
        "layers": layers,
        "quantities": [[name, QUANTITIES[name]] for name in SHOWN],
    }


def plain(x: Tensor) -> Any:
    """Nested lists of numbers with three digits; null where there is none."""
    if x.dim() > 1:
        return [plain(part) for part in x]
    return [float(f"{value:.3g}") if math.isfinite(value) else None for value in x.tolist()]


def number(perplexity: float) -> str:
    """A perplexity in four digits, and never as a power of ten."""
    return f"{perplexity:,.0f}" if perplexity >= 1000 else f"{perplexity:.4g}"


def digits(x: Tensor) -> str:
    """The mean of a tensor in three digits; a dash where it is not defined."""
    value = x.double()[torch.isfinite(x)].mean().item() if bool(torch.isfinite(x).any()) else math.nan
    if math.isnan(value):
        return "–"
    return "0" if abs(value) < 1e-6 else f"{value:.3g}"
