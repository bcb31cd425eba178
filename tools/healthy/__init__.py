"""Healthy runs: what checkers object to where no bug was planted; ``make healthy``."""
