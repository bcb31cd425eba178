"""Runs of weather without a planted bug, to find false objections; ``make healthy``."""
