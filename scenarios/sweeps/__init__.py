"""Runs from many seeds, in parallel, each in its own process."""
