"""Text before and after a model: the tokens of a prompt, and generated text that is safe to print."""

from fastweights.data.text.tokenizers import END_OF_LINE, Vocabulary, Words


def prompt_tokens(vocabulary: Vocabulary, prompt: str) -> list[int]:
    """The token ids of a prompt; without one, a text starts at the beginning of a line."""
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in prompt):
        raise ValueError("prompt: not UTF-8 text")
    if prompt:
        tokens = [token for line in prompt.splitlines(keepends=True) for token in vocabulary.encode(line)]
        # The prompt's last line is to be continued, not ended.
        unfinished = isinstance(vocabulary.tokenizer, Words) and not prompt.endswith("\n") and len(tokens) > 1
        return tokens[:-1] if unfinished else tokens
    for symbol in (END_OF_LINE, "\n", "Ċ"):
        if symbol in vocabulary.token_ids:
            return [vocabulary.token_ids[symbol]]
    return [0]


def printable(text: str) -> str:
    """Text that cannot steer a terminal: control characters other than line ends and tabs are shown as �."""
    return "".join(letter if letter in "\n\t" or letter.isprintable() else "�" for letter in text)
