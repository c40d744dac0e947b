"""Looking into a trained language model: what its memories do over a text, as a page and in the terminal."""
