"""How the perplexity of `page.yaml` is counted."""


def score(document: dict[str, str], results: tuple[float]) -> dict[str, tuple[float, int]]:
    """The log-likelihood of a text and the number of its words, of which the end of a line is one, as in WikiText."""
    text = document["text"]
    return {"word_perplexity": (results[0], len(text.split()) + text.count("\n"))}
