"""Attention layers, all of the form forward(x, state, mask) -> (y, state), with `initial_state(batch)`."""
