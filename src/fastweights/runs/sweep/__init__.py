"""Sweeps: many runs, by one of several executors, that can be killed at any moment and started again."""
