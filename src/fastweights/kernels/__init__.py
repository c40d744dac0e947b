"""Compiled code: every line that knows a compiler, a library or a pointer, and no line that knows a rule's equation."""
