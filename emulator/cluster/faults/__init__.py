"""Faults of a cluster: their effects, and the worlds that can carry them out."""
