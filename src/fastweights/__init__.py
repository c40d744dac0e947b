"""Transformers whose attention is a fast-weight memory."""

__version__ = "0.1.0"
