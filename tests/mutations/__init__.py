"""Deliberate defects in production code, each of which the simulator or the model must catch by a named invariant."""
