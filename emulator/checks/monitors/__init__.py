"""Monitors: checkers that hold a client to the numbered client invariants.

``invariants`` has the table of all 61: which checker judges each, or why facts cannot show it.
"""
