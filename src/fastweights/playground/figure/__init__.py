"""The figure on the documentation's first page: a memory to write and read, without a server."""
