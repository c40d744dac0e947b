"""Running anything, once for all: run folders, checkpoints, records, signals, displays, sweeps."""
