"""Monitors: checkers of the numbered client invariants.

``judging.invariants`` has all 61: which checker judges each, or why facts cannot show it.
"""
