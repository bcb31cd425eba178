"""Faults: what can be done to a cluster on purpose, and which world can do what."""
