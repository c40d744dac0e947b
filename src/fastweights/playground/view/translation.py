"""The tab about a translator: hypotheses, and which source words every target word takes from."""

from html import escape

from fastweights.playground.translating import SourceReads, Translated
from fastweights.playground.view.text import decimals, number, scrolling


def translation_view(found: Translated) -> str:
    """Everything about one sentence."""
    beams = "".join(
        f"<li><span lang=und>{escape(translation.text)}</span> <small>log p "
        f"{number(translation.log_probability, f'log-p-{place}')}</small></li>"
        for place, translation in enumerate(found.found)
    )
    tables = "".join(_table(found, place, reads) for place, reads in enumerate(found.reads))
    if not tables:
        tables = "<p>This translator attends to its source without a linear fast-weight memory.</p>"
    return f"<h3>What the search found</h3><ol class='fw-beams'>{beams}</ol>{tables}"


def _table(found: Translated, place: int, reads: SourceReads) -> str:
    """Target words down, source words across, mean over heads; the strongest of each row in bold."""
    weights = reads.weights.mean(dim=0)
    largest = max(float(weights.abs().max()), 1e-30)
    heads = "".join(f"<th scope=col>{escape(piece)}</th>" for piece in found.source)
    rows = []
    for row, (piece, numbers) in enumerate(zip(found.target, weights.tolist(), strict=True)):
        cells = "".join(
            f'<td class="{"fw-plus" if value >= 0 else "fw-minus"}{" fw-most" if value == max(numbers) else ""}" '
            f'style="--fw-shade:{abs(value) / largest:.3f}">{decimals(value, f"read-{place}-{row}-{column}")}</td>'
            for column, value in enumerate(numbers)
        )
        rows.append(f"<tr><th scope=row>{escape(piece)}</th>{cells}</tr>")
    title = f"{escape(reads.layer)}: what every target word (rows) takes of what every source word wrote (columns)"
    return f"<h4>{title}</h4>" + scrolling(
        title, f"<thead><tr><td></td>{heads}</tr></thead><tbody>{''.join(rows)}</tbody>", "fw-reads"
    )
